// An answer as an object that follows a JSON schema; in TypeScript it has the schema's type.
// Schemas of zod and similar libraries also work.
import { loadModel } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin');
const { object } = await model.chat('My name is Ana and I am 7. Reply in JSON.', {
  temperature: 0,
  schema: {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 40 }, age: { type: 'integer' } },
    required: ['name', 'age'],
    additionalProperties: false,
  },
});
console.log(`${object.name} will be ${object.age + 1} next year.`);
await model.dispose();
