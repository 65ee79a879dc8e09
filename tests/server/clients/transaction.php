<?php
// A transaction of the real php-redis: php transaction.php PORT

function connected(int $port): Redis {
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port, 20.0);
    return $redis;
}
$port = (int) $argv[1];
$redis = connected($port);

$replies = $redis->multi()
    ->rawCommand('CL.THROTTLE', 'x', '0', '1', '10')
    ->rawCommand('CL.THROTTLE', 'x', '0', '1', '10')
    ->rawCommand('WEIR.ACQUIRE', 'worker=w')
    ->rawCommand('WEIR.ACQUIRE', 'worker=w')
    ->exec();
echo implode(' ', [$replies[0][0], $replies[1][0], $replies[2][1], $replies[3][1]]), "\n";

// php-redis waits for an array where EXEC is answered by an error, from Redis too, until it gives
// the connection up.
$redis->setOption(Redis::OPT_READ_TIMEOUT, 1);
$redis->multi();
$redis->rawCommand('CL.THROTTLE', 'y', '0', '1', '10');
$redis->rawCommand('GET', 'y');
try {
    echo $redis->exec() === false ? "refused\n" : "run\n";
} catch (RedisException $error) {
    echo "refused\n";
}
echo connected($port)->rawCommand('CL.THROTTLE', 'y', '0', '1', '10')[0], "\n";
