// A process of aliases.test: it adds one name to a model and removes another, like many others at
// once.
import { addAlias, removeAliases } from '#recua/models/aliases.js';

const [folder, name] = process.argv.slice(2) as [string, string];
const places = { hub: folder, sessions: folder, state: folder, tokenFile: folder };
await addAlias(places, name, { repo: `local/${name}`, file: 'm.gguf' }, false);
await addAlias(places, `${name}-short`, { repo: `local/${name}`, file: 'm.gguf' }, false);
await removeAliases(places, (one) => one === `${name}-short`);
