// Several models, each loaded on demand. Dispose of a lease to give it back; dispose of the models
// to end them all.
import { openModels } from 'recua';

const models = await openModels({
  models: {
    chat: { model: process.argv[2] ?? 'builtin', contextSize: 1024 },
    embed: { model: process.argv[3] ?? 'builtin', contextSize: 256 },
  },
  keepAliveMs: 60_000,
});
const states = new Map();
models.on('change', ({ id, state }) => {
  // A model that loads reports its progress, too.
  if (states.get(id) !== state) console.error(`${id}: ${state}`);
  states.set(id, state);
});
try {
  const chat = await models.lease('chat');
  const embed = await models.lease('embed');
  try {
    const { content } = await chat.chat('Who are you?', { temperature: 0 });
    const vector = await embed.embed(content);
    console.log(`${content}\n${vector.length} numbers say so, too`);
  } finally {
    // Both stay loaded for a minute, in case of another request.
    await Promise.all([chat.dispose(), embed.dispose()]);
  }
} finally {
  await models.dispose();
}
