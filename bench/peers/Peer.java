// Guava's RateLimiter on the questions of bench/peers/run. Prints `NAME NS`.

import com.google.common.util.concurrent.RateLimiter;

public final class Peer {
  private static final int CALLS = 3_000_000;
  private static boolean sink;

  private static double oneThread(RateLimiter limiter) {
    long start = System.nanoTime();
    boolean any = false;
    for (int i = 0; i < CALLS; i++) any ^= limiter.tryAcquire();
    sink = any;
    return (System.nanoTime() - start) / (double) CALLS;
  }

  private static double twoThreads(RateLimiter limiter) throws InterruptedException {
    double[] ns = new double[2];
    Thread[] threads = new Thread[2];
    for (int t = 0; t < 2; t++) {
      int mine = t;
      threads[t] = new Thread(() -> ns[mine] = oneThread(limiter));
      threads[t].start();
    }
    for (Thread thread : threads) thread.join();
    return (ns[0] + ns[1]) / 2;
  }

  public static void main(String[] args) throws InterruptedException {
    RateLimiter admitting = RateLimiter.create(1e9);
    RateLimiter denying = RateLimiter.create(1e-4);
    for (int i = 0; i < 4; i++) {
      oneThread(admitting);
      oneThread(denying);
    }
    System.out.println("guava_hot " + oneThread(admitting));
    System.out.println("guava_hot_2 " + twoThreads(admitting));
    System.out.println("guava_denied_2 " + twoThreads(denying));
  }
}
