// Runs in place of the engine and tries what an engine taken over by a hostile model file would
// try. Prints one JSON object: for each attempt by name, 'done' or the error that prevented it.
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import {
  appendFileSync, chmodSync, chownSync, closeSync, fchmodSync, lchownSync, lutimesSync, mkdirSync, openSync, readFileSync, readdirSync,
  symlinkSync, utimesSync, writeFileSync,
} from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

const [model, secret, writable, port, socketPath] = process.argv.slice(2) as [string, string, string, string, string];

const attempts: Record<string, () => unknown> = {
  readModel: () => readFileSync(model).length,
  writeState: () => writeFileSync(join(writable, 'state'), 'text'),
  folderOfStates: () => mkdirSync(join(writable, 'inner')),
  readSecret: () => readFileSync(secret),
  readSecretByLink: () => {
    symlinkSync(secret, join(writable, 'link'));
    return readFileSync(join(writable, 'link'));
  },
  listHome: () => readdirSync(homedir()),
  listTmp: () => readdirSync('/tmp'),
  writeModel: () => appendFileSync(model, 'text'),
  writeSecret: () => writeFileSync(secret, 'text'),
  modeOfSecret: () => chmodSync(secret, 0o644),
  modeOfHome: () => chmodSync(dirname(secret), 0o755),
  modeByFile: () => {
    const file = openSync(model, 'r');
    try {
      fchmodSync(file, 0o600);
    } finally {
      closeSync(file);
    }
  },
  ownerOfSecret: () => chownSync(secret, process.getuid!(), process.getgid!()),
  ownerByLink: () => lchownSync(secret, process.getuid!(), process.getgid!()),
  timeOfSecret: () => utimesSync(secret, 1, 1),
  timeByLink: () => lutimesSync(secret, 1, 1),
  writeTmp: () => writeFileSync('/tmp/recua-sandbox-test', 'text'),
  shell: () => started('/bin/sh'),
  ownProgram: () => {
    writeFileSync(join(writable, 'program'), '#!/bin/sh\necho hi\n', { mode: 0o755 });
    return started(join(writable, 'program'));
  },
  signalParent: () => process.kill(process.ppid, 'SIGCONT'),
  environmentOfParent: () => readFileSync(`/proc/${process.ppid}/environ`),
  memoryOfParent: () => readFileSync(`/proc/${process.ppid}/maps`),
  tcp: () => settled(createConnection(Number(port), '127.0.0.1'), 'connect'),
  unixSocket: () => settled(createConnection(socketPath), 'connect'),
  listen: () => settled(createServer().listen(0, '127.0.0.1'), 'listening'),
  udp: () => {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    return settled(socket, 'listening');
  },
  // Last, since all other attempts need less.
  becomeAnother: () => process.setuid!(65_534),
};

function started(program: string): void {
  const { error } = spawnSync(program, ['-c', 'true']);
  if (error) throw error;
}

async function settled(source: NodeJS.EventEmitter, event: string): Promise<void> {
  await once(source, event);
}

const found: Record<string, string> = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    found[name] = 'done';
  } catch (thrown) {
    found[name] = (thrown as NodeJS.ErrnoException).code ?? String(thrown);
  }
}
process.stdout.write(JSON.stringify({ sandbox: process.env['RECUA_CONFINED'], found }), () => process.exit(0));
