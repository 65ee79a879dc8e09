// The real ioredis against the real server: node ioredis.js WEIR MODULES
//
// WEIR is the program, MODULES the folder in which node_modules lies. Exits with 0 only if
// everything below held.

const assert = require('node:assert/strict');
const { once } = require('node:events');

const { load, withServer, mapOf, drive } = require('./support.js');

const Redis = load('ioredis');

// A client whose connection errors the test asks for, rather than having them printed.
function connect(port, options = {}) {
  const redis = new Redis({ port, host: '127.0.0.1', ...options });
  redis.on('error', () => {});
  return redis;
}

const claims = {
  async 'becomes ready, with its handshakes'() {
    await withServer({}, async (port) => {
      const redis = connect(port, { connectionName: 'tester', enableReadyCheck: true });
      await once(redis, 'ready');
      assert.match(await redis.info(), /server:weir/);
      assert.equal(await redis.client('GETNAME'), 'tester');
      assert.equal(await redis.ping(), 'PONG');
      assert.equal(await redis.quit(), 'OK');
    });
  },

  async 'throttles by call'() {
    await withServer({}, async (port) => {
      const redis = connect(port);
      assert.deepEqual(await redis.call('CL.THROTTLE', 'user123', 15, 30, 60), [0, 16, 15, -1, 2]);
      assert.deepEqual(await redis.call('CL.THROTTLE', 'x', 0, 1, 10), [0, 1, 0, -1, 10]);
      assert.equal((await redis.call('CL.THROTTLE', 'x', 0, 1, 10))[0], 1);
      await assert.rejects(redis.call('CL.THROTTLE', 'x'), /Cell error: Store error: Usage: cl.throttle <key>/);
      redis.disconnect();
    });
  },

  async 'decides in pipelines, and all at once with autopipelining'() {
    await withServer({}, async (port) => {
      const redis = connect(port);
      const pipeline = redis.pipeline();
      for (let i = 0; i < 5; ++i) pipeline.call('WEIR.ACQUIRE', 'client=a');
      pipeline.call('WEIR.ACQUIRE', 'nonsense');
      const replies = await pipeline.exec();
      const verdicts = replies.slice(0, 5).map(([error, reply]) => {
        assert.equal(error, null);
        return mapOf(reply).verdict;
      });
      assert.deepEqual(verdicts, ['allowed', 'allowed', 'allowed', 'denied', 'denied']);
      assert.match(replies[5][0].message, /^BADARG/);
      redis.disconnect();

      const automatic = connect(port, { enableAutoPipelining: true });
      const many = await Promise.all(
        Array.from({ length: 100 }, () => automatic.call('WEIR.ACQUIRE', 'client=b')));
      const allowed = many.filter((reply) => mapOf(reply).verdict === 'allowed');
      assert.equal(allowed.length, 3);
      automatic.disconnect();
    });
  },

  async 'decides between MULTI and EXEC, or not at all'() {
    await withServer({}, async (port) => {
      const redis = connect(port);
      const replies = await redis.multi()
        .call('CL.THROTTLE', 'x', 0, 1, 10)
        .call('CL.THROTTLE', 'x', 0, 1, 10)
        .call('WEIR.ACQUIRE', 'worker=w')
        .call('WEIR.ACQUIRE', 'worker=w')
        .exec();
      for (const [error] of replies) assert.equal(error, null);
      assert.equal(replies[0][1][0], 0);
      assert.equal(replies[1][1][0], 1);
      assert.equal(mapOf(replies[2][1]).verdict, 'allowed');
      assert.equal(mapOf(replies[3][1]).verdict, 'denied');

      const refused = redis.multi().call('CL.THROTTLE', 'y', 0, 1, 10).call('GET', 'y').exec();
      await assert.rejects(refused, /EXECABORT/);
      assert.equal((await redis.call('CL.THROTTLE', 'y', 0, 1, 10))[0], 0, 'nothing was charged');

      await redis.multi({ pipeline: false });
      assert.equal(await redis.call('WEIR.ACQUIRE', 'client=m'), 'QUEUED');
      await redis.discard();
      assert.equal(mapOf(await redis.call('WEIR.PEEK', 'client=m')).verdict, 'allowed');
      redis.disconnect();
    });
  },

  async 'holds, waits and settles'() {
    await withServer({}, async (port) => {
      const first = connect(port);
      const second = connect(port);
      const held = mapOf(await first.call('WEIR.ACQUIRE', 'worker=w'));
      const waiting = second.call('WEIR.ACQUIRE', 'worker=w', 'WAIT', '50s');
      for (;;) {
        const seen = mapOf(await first.call('WEIR.INSPECT', 'running', 'worker=w'));
        if (seen.waiters === 1) break;
      }
      assert.equal(await first.call('WEIR.SETTLE', held.hold), 'settled');
      assert.equal(mapOf(await waiting).verdict, 'allowed');
      first.disconnect();
      second.disconnect();
    });
  },

  async 'authenticates by its password option'() {
    const more = 'auth: [ { token: secret, role: decide } ]\n';
    await withServer({ more }, async (port) => {
      const good = connect(port, { password: 'secret' });
      await once(good, 'ready');
      assert.equal(mapOf(await good.call('WEIR.ACQUIRE', 'client=a')).verdict, 'allowed');
      await assert.rejects(good.call('WEIR.RELOAD'), /^ReplyError: NOPERM/);
      good.disconnect();

      const named = connect(port, { username: 'default', password: 'secret' });
      assert.equal(await named.ping(), 'PONG');
      named.disconnect();

      const bad = new Redis({ port, host: '127.0.0.1', password: 'guess', retryStrategy: null });
      const [error] = await once(bad, 'error');
      assert.match(error.message, /^WRONGPASS/);
      bad.disconnect();
    });
  },

  async 'reconnects by itself'() {
    await withServer({ idle: '200ms' }, async (port) => {
      const redis = connect(port);
      await once(redis, 'ready');
      await once(redis, 'reconnecting');  // the server has closed the idle connection
      await once(redis, 'ready');
      assert.equal(await redis.ping(), 'PONG');
      redis.disconnect();
    });
  },
};

drive('ioredis', claims);
