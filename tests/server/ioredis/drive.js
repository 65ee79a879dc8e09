// The real ioredis against the real server: node drive.js WEIR MODULES
//
// WEIR is the program, MODULES the folder in which node_modules lies. Exits with 0 only if
// everything below held.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');

const [weir, modules] = process.argv.slice(2);
if (!fs.existsSync(path.resolve(modules, 'installed'))) {
  console.log('skipped: ioredis was not fetched, see server.ioredis_install');
  process.exit(0);
}
const Redis = createRequire(path.resolve(modules, 'package.json'))('ioredis');

const limits = `
listen: { resp: 127.0.0.1:0, http: none }
bounds: { idle: IDLE }
limits:
  - { name: per-client, per: [client], window: { limit: 3, every: 10000d } }
  - { name: running, per: [worker], slots: { limit: 1, queue: 16, hold: 60s } }
`;

// Starts a server, gives its port to `use`, and ends it.
async function withServer({ idle = '5m', more = '' }, use) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'weir-ioredis-'));
  const file = path.join(dir, 'weir.yaml');
  fs.writeFileSync(file, limits.replace('IDLE', idle) + more);
  const server = spawn(weir, ['serve', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  const exited = once(server, 'exit');
  try {
    const port = await new Promise((resolve, reject) => {
      let said = '';
      server.stderr.on('data', (bytes) => {
        said += bytes;
        const found = /address=127\.0\.0\.1:(\d+)\n/.exec(said);
        if (found) resolve(Number(found[1]));
      });
      server.on('exit', () => reject(new Error(`the server ended: ${said}`)));
    });
    await use(port);
  } finally {
    server.kill('SIGTERM');
    const [code] = await exited;
    fs.rmSync(dir, { recursive: true });
    assert.equal(code, 0, 'the server ended cleanly');
  }
}

let protocol;

// A client whose connection errors the test asks for, rather than having them printed.
function connect(port, options = {}) {
  const redis = new Redis({ port, host: '127.0.0.1', protocol, ...options });
  redis.on('error', () => {});
  return redis;
}

// A reply of names and values as an object: version 3 has maps, version 2 lists.
function mapOf(list) {
  if (list instanceof Map) return Object.fromEntries(list);
  if (!Array.isArray(list)) return list;
  const map = {};
  for (let i = 0; i < list.length; i += 2) map[list[i]] = list[i + 1];
  return map;
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

      const bad = new Redis({ port, protocol, password: 'guess', retryStrategy: null });
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

async function main() {
  for (protocol of [2, 3]) {
    for (const [name, claim] of Object.entries(claims)) {
      console.log(`RESP${protocol}: ioredis ${name}`);
      await claim();
    }
  }
}

const deadline = setTimeout(() => {
  console.error('drive.js: the time is up');
  process.exit(1);
}, 240_000);

main().then(
  () => clearTimeout(deadline),
  (error) => {
    console.error(error);
    process.exit(1);
  });
