// `npm run test:soak [-- --minutes N --clients N --kills N] [-- FLAG...]`: sends all kinds of
// traffic to one running server (test/soak/), after set-up if it is missing. Exits with 1 if a
// promise is broken.
import { join } from 'node:path';
import { place } from './place.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { compileTests } from './typescript.mjs';

await program(async () => {
  await setUp();
  await compileTests();
  return show(process.execPath, [join(place.distTest, 'soak', 'main.js'), ...process.argv.slice(2)]);
});
