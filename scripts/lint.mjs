// `npm run lint`: type-checks src and test, then runs eslint with type-aware rules on everything or
// on the given files. Options go to eslint (`--fix`).
import { join } from 'node:path';
import { isProgram, place, root } from './place.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { compileTests } from './typescript.mjs';

/** eslint's exit code. */
export function eslint(args = [], files = [root]) {
  return show(process.execPath, [join(place.nodeModules, 'eslint', 'bin', 'eslint.js'), '--max-warnings', '0', ...args, ...files]);
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    await setUp({ native: false });
    await compileTests();
    const args = process.argv.slice(2);
    const files = args.filter((argument) => !argument.startsWith('-'));
    const options = args.filter((argument) => argument.startsWith('-'));
    return files.length > 0 ? eslint([...options, '--no-warn-ignored'], files) : eslint(options);
  });
}
