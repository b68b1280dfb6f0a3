// The same library with require().
const { loadModel, RecuaError } = require('recua');

async function main() {
  const model = await loadModel(process.argv[2] ?? 'builtin');
  try {
    const answer = await model.chat('Who are you?', { temperature: 0 });
    console.log(answer.content);
  } catch (error) {
    if (!(error instanceof RecuaError)) throw error;
    console.error(error.code, error.message);
  } finally {
    await model.dispose();
  }
}

main();
