// The real node-redis against the real server: node node_redis.js WEIR MODULES
//
// WEIR is the program, MODULES the folder in which node_modules lies. Exits with 0 only if
// everything below held.

const assert = require('node:assert/strict');

const { load, withServer, mapOf, drive } = require('./support.js');

const { createClient } = load('@redis/client');

// Connects, gives the client to `use`, and ends the connection.
async function withClient(port, RESP, use) {
  const client = createClient({ RESP, socket: { host: '127.0.0.1', port } });
  client.on('error', () => {});
  await client.connect();
  try {
    await use(client);
  } finally {
    client.destroy();
  }
}

const claims = {};
for (const version of [2, 3]) {
  claims[`decides in version ${version}`] = () => withServer({}, (port) =>
    withClient(port, version, async (client) => {
      assert.equal(await client.sendCommand(['PING']), 'PONG');
      assert.deepEqual(
        await client.sendCommand(['CL.THROTTLE', 'user123', '15', '30', '60']), [0, 16, 15, -1, 2]);
      const reply = mapOf(await client.sendCommand(['WEIR.ACQUIRE', 'client=a']));
      assert.equal(reply.verdict, 'allowed');
    }));

  claims[`decides between MULTI and EXEC in version ${version}, or not at all`] = () =>
    withServer({}, (port) => withClient(port, version, async (client) => {
      const throttle = (key) => ['CL.THROTTLE', key, '0', '1', '10'];
      const replies = await client.multi()
        .addCommand(throttle('x'))
        .addCommand(throttle('x'))
        .addCommand(['WEIR.ACQUIRE', 'worker=w'])
        .addCommand(['WEIR.ACQUIRE', 'worker=w'])
        .exec();
      assert.equal(replies[0][0], 0);
      assert.equal(replies[1][0], 1);
      assert.equal(mapOf(replies[2]).verdict, 'allowed');
      assert.equal(mapOf(replies[3]).verdict, 'denied');

      await assert.rejects(client.multi().addCommand(throttle('y')).addCommand(['GET', 'y']).exec());
      assert.equal((await client.sendCommand(throttle('y')))[0], 0, 'nothing was charged');
    }));
}

drive('node-redis', claims);
