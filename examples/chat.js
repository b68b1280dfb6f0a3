// A conversation: each answer is awaited whole, and its `messages` continue the conversation.
import { loadModel } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin');
const conversation = [{ role: 'system', content: 'You answer in one sentence.' }];
for (const content of ['My name is Ada.', 'What is my name?']) {
  conversation.push({ role: 'user', content });
  const answer = await model.chat(conversation, { temperature: 0 });
  conversation.push(...answer.messages);
  console.log(`> ${content}\n${answer.content}`);
}
await model.dispose();
