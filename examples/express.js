// The HTTP API, mounted in an Express app of your own.
import express from 'express';
import { createServer, loadModel } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin');
const app = express();
app.use('/llm', createServer(model));
app.get('/', (_req, res) => res.send('My own page'));
const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  const { port } = server.address();
  console.log(`Try: curl http://127.0.0.1:${port}/llm/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"Hello!"}]}'`);
});
process.once('SIGTERM', async () => {
  await new Promise((resolve) => server.close(resolve));
  await model.dispose();
});
