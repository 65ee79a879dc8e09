// Go's x/time/rate on the questions of bench/peers/run. Prints `NAME NS`.
package main

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const calls = 2000000

func hot() float64 {
	limiter := rate.NewLimiter(1e9, 1000000000)
	start := time.Now()
	for i := 0; i < calls; i++ {
		limiter.Allow()
	}
	return float64(time.Since(start).Nanoseconds()) / calls
}

func keyed(population int) float64 {
	var lock sync.RWMutex
	limiters := make(map[string]*rate.Limiter, population)
	for i := 0; i < population; i++ {
		limiters[fmt.Sprintf("client:%07d", i)] = rate.NewLimiter(1e9, 1000000000)
	}
	stream := make([]string, 1<<20)
	for i := range stream {
		stream[i] = fmt.Sprintf("client:%07d", rand.Intn(population))
	}
	start := time.Now()
	for i := 0; i < len(stream); i++ {
		lock.RLock()
		limiter := limiters[stream[i]]
		lock.RUnlock()
		limiter.Allow()
	}
	return float64(time.Since(start).Nanoseconds()) / float64(len(stream))
}

func main() {
	hot()
	fmt.Println("go_hot", hot())
	fmt.Println("go_keys_1k", keyed(1000))
	fmt.Println("go_keys_1m", keyed(1000000))
}
