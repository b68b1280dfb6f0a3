// Several models of which each is loaded when it is asked for. Who leases one gives it back; who
// opened them ends them all.
import { openModels } from 'recua';

const models = await openModels({
  models: {
    chat: { model: process.argv[2] ?? 'builtin', contextSize: 1024 },
    embed: { model: process.argv[3] ?? 'builtin', contextSize: 256 },
  },
  keepAliveMs: 60_000,
});
models.on('change', ({ id, state }) => console.error(`${id}: ${state}`));
try {
  const chat = await models.lease('chat');
  const embed = await models.lease('embed');
  try {
    const { content } = await chat.chat('Who are you?', { temperature: 0 });
    const vector = await embed.embed(content);
    console.log(`${content}\n${vector.length} numbers say so, too`);
  } finally {
    // Both stay loaded for a minute, in case that somebody asks again.
    await Promise.all([chat.dispose(), embed.dispose()]);
  }
} finally {
  await models.dispose();
}
