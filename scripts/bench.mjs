// `npm run bench`: builds set-up and peers if they are missing, then runs bench/main.mjs with the
// arguments; `npm run bench -- page`: bench/page.mjs; `npm run bench -- cluster`:
// bench/cluster/main.mjs.
import { ensurePeers } from './peers.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { join } from 'node:path';
import { root } from './place.mjs';

await program(async () => {
  const main = join(root, 'bench', 'main.mjs');
  if (process.argv.includes('--list')) return show(process.execPath, [main, '--list']);
  await setUp();
  // The page benchmark uses a browser and no other server.
  if (process.argv[2] === 'page') return show(process.execPath, [join(root, 'bench', 'page.mjs')]);
  if (process.argv[2] === 'cluster') return show(process.execPath, [join(root, 'bench', 'cluster', 'main.mjs'), ...process.argv.slice(3)]);
  await ensurePeers(['llama-server', 'llama-batched-bench']);
  return show(process.execPath, [main, ...process.argv.slice(2)]);
});
