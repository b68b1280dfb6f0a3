// llama-server of the same tree on a free port, for comparison.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { freePort } from '../free-port.js';

const binary = fileURLToPath(new URL('../../build/bin/llama-server', import.meta.url));
const builtin = fileURLToPath(new URL('../../builtin/builtin.gguf', import.meta.url));

export async function startLlamaServer(t: Test, args: readonly string[], model = builtin): Promise<string> {
  const port = await freePort();
  const child = spawn(binary, ['-m', model, '--port', String(port), '--jinja', '--offline', '-t', '2', ...args], { stdio: 'ignore' });
  t.teardown(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${url}/health`).then(({ ok }) => ok, () => false))) {
    if (child.exitCode !== null) throw new Error(`llama-server ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return url;
}
