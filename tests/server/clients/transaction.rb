# A transaction of the real redis gem: ruby transaction.rb PORT

require 'redis'

redis = Redis.new(host: '127.0.0.1', port: Integer(ARGV[0]), timeout: 20)

replies = redis.multi do |transaction|
  2.times { transaction.call('CL.THROTTLE', 'x', 0, 1, 10) }
  2.times { transaction.call('WEIR.ACQUIRE', 'worker=w') }
end
puts [replies[0][0], replies[1][0], replies[2][1], replies[3][1]].join(' ')

begin
  redis.multi do |transaction|
    transaction.call('CL.THROTTLE', 'y', 0, 1, 10)
    transaction.call('GET', 'y')
  end
rescue Redis::CommandError
  puts 'refused'
end
puts redis.call('CL.THROTTLE', 'y', 0, 1, 10)[0]
