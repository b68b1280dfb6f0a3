// `npm run bench`: set-up and peers where they are missing, then bench/main.mjs. Arguments are
// passed on.
import { ensurePeers } from './peers.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { join } from 'node:path';
import { root } from './place.mjs';

await program(async () => {
  await setUp();
  await ensurePeers(['llama-server', 'llama-batched-bench']);
  return show(process.execPath, [join(root, 'bench', 'main.mjs'), ...process.argv.slice(2)]);
});
