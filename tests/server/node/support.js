// What the drivers of real clients share: the client's package, a server of their own, and a
// list of claims that are tried one after the other.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');

const [weir, modules] = process.argv.slice(2);

// A package that npm has fetched into MODULES. Ends the program if it has not.
function load(name) {
  if (!fs.existsSync(path.resolve(modules, 'installed'))) {
    console.log(`skipped: ${name} was not fetched, see server.node_install`);
    process.exit(0);
  }
  return createRequire(path.resolve(modules, 'package.json'))(name);
}

const limits = `
listen: { resp: 127.0.0.1:0, http: none }
bounds: { idle: IDLE }
limits:
  - { name: per-client, per: [client], window: { limit: 3, every: 10000d } }
  - { name: running, per: [worker], slots: { limit: 1, queue: 16, hold: 60s } }
`;

// Starts a server, gives its port to `use`, and ends it. Clients name 127.0.0.1: what
// `localhost` means differs from one version of Node.js to the next.
async function withServer({ idle = '5m', more = '' }, use) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'weir-node-'));
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

// A reply of names and values as an object: version 3 has maps, version 2 lists.
function mapOf(list) {
  if (list instanceof Map) return Object.fromEntries(list);
  if (!Array.isArray(list)) return list;
  const map = {};
  for (let i = 0; i < list.length; i += 2) map[list[i]] = list[i + 1];
  return map;
}

// Tries every claim, and ends the program with 0 only if all of them held.
function drive(client, claims) {
  const deadline = setTimeout(() => {
    console.error('the time is up');
    process.exit(1);
  }, 240_000);
  (async () => {
    for (const [name, claim] of Object.entries(claims)) {
      console.log(`${client} ${name}`);
      await claim();
    }
  })().then(
    () => clearTimeout(deadline),
    (error) => {
      console.error(error);
      process.exit(1);
    });
}

module.exports = { load, withServer, mapOf, drive };
