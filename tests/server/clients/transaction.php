<?php
// A transaction of the real php-redis: php transaction.php PORT

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1], 20.0);

$replies = $redis->multi()
    ->rawCommand('CL.THROTTLE', 'x', '0', '1', '10')
    ->rawCommand('CL.THROTTLE', 'x', '0', '1', '10')
    ->rawCommand('WEIR.ACQUIRE', 'worker=w')
    ->rawCommand('WEIR.ACQUIRE', 'worker=w')
    ->exec();
echo implode(' ', [$replies[0][0], $replies[1][0], $replies[2][1], $replies[3][1]]), "\n";

$redis->multi();
$redis->rawCommand('CL.THROTTLE', 'y', '0', '1', '10');
$redis->rawCommand('GET', 'y');
echo $redis->exec() === false ? "refused\n" : "run\n";
echo $redis->rawCommand('CL.THROTTLE', 'y', '0', '1', '10')[0], "\n";
