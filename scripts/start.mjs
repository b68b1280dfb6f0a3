// `npm start`: set-up if it is missing, then `recua api builtin` in this process. Passes arguments
// on: `npm start -- --port 9000`, or another model: `npm start -- model.gguf`.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { place } from './place.mjs';
import { Failure } from './process.mjs';
import { say } from './progress.mjs';
import { setUp } from './setup.mjs';

// npm keeps flags without `--` before them, as variables.
const flags = ['port', 'host', 'model', 'ctx-size', 'parallel', 'gpu-layers', 'max-tokens', 'temp', 'api-key', 'api-key-file', 'keep-alive', 'models'];
const kept = flags.find((flag) => process.env[`npm_config_${flag.replaceAll('-', '_')}`] !== undefined);
if (kept !== undefined) {
  say(`npm took --${kept} for itself. Put -- before what is for Recua: npm start -- --${kept} …`);
  process.exit(2);
}

const stop = () => {
  say('\nStopped. The next run continues here.');
  process.exit(130);
};
process.once('SIGINT', stop);
try {
  await setUp();
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  say(error.message);
  process.exit(1);
}
process.removeListener('SIGINT', stop);

// npm runs this through a shell that does not forward signals: when npm stops, only the end of our
// parent shows it.
if (process.env.npm_lifecycle_event) {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    process.kill(process.pid, 'SIGTERM');
  }, 500);
  watch.unref();
}

const given = process.argv.slice(2);
const part = async (...path) => await import(pathToFileURL(join(place.dist, 'cli', ...path)).href);
process.exitCode = await (await part('main.js')).main(['api', ...(await namesModel() ? [] : ['builtin']), ...given]);

async function namesModel() {
  const [{ api }, { parseArguments }] = [await part('commands', 'api.js'), await part('flags', 'arguments.js')];
  try {
    const { operands, values } = parseArguments('api', api.flags, given);
    return operands.length > 0 || values.model !== '';
  } catch {
    // The command itself says what is wrong.
    return true;
  }
}
