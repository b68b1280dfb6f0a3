// Semantic search: finds the texts whose vectors are closest to the question's. Use an embedding
// model for good results; any model works.
import { loadModel } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin');
const texts = ['The llama is a domesticated animal of the Andes.', 'Rust is a systems programming language.', 'Bread is baked from flour and water.'];
const question = 'Which animals live in the Andes?';
const [asked, ...vectors] = await model.embed([question, ...texts]);
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const found = vectors.map((vector, i) => ({ text: texts[i], similarity: dot(asked, vector) })).sort((a, b) => b.similarity - a.similarity);
for (const { text, similarity } of found) console.log(similarity.toFixed(3), text);
await model.dispose();
