// `npm run bench -- --growth [TABLE …] [--sizes N,N,…] [--model FILE|nano|135m]`: what growing
// sizes cost, beside the cost in theory. One server at a time. Without TABLE all tables, without
// sizes the usual ones.
//   clients 1 → 64        tokens/s, beside llama-server and the engine alone (llama-batched-bench)
//   context 1k → 32k      ms per token behind a prompt of that length: a constant and a part for
//                         each token of context
//   conversations 1 → 64  first token of a second turn, on 4 sequences: the new tokens, and
//                         restoring a conversation
import { engineAlone } from './engine-alone.mjs';
import { greedy } from './loads.mjs';
import { runClients, withServer } from './servers.mjs';

async function byClients({ model, threads, sizes: counts = [1, 2, 4, 8, 16, 32, 64] }) {
  const alone = await engineAlone({ model, threads, counts, promptTokens: 64, tokens: 64 });
  console.log('clients   recua   llama-server   engine alone, generating only   recua/engine');
  for (const parallel of counts) {
    const work = { kind: 'chat', clients: parallel, requests: 2, tokens: 64, body: greedy };
    const rates = {};
    for (const peer of ['recua', 'llama-server']) {
      rates[peer] = await withServer(peer, { model, threads, parallel, context: 256 }, async (server) => {
        await runClients(server, { ...work, requests: 1 });
        return (await runClients(server, work)).tokensPerSecond;
      });
    }
    const engine = (64 * parallel) / alone.get(parallel).generateSeconds;
    console.log([parallel, rates.recua.toFixed(0), rates['llama-server'].toFixed(0), engine.toFixed(0), (rates.recua / engine).toFixed(2)]
      .map((cell, i) => String(cell).padStart([7, 8, 15, 32, 15][i])).join(''));
  }
}

async function byContext({ model, threads, sizes = [1024, 2048, 4096, 8192, 16384, 32768] }) {
  console.log('context   ms per token   prompt tokens/s');
  for (const context of sizes) {
    const work = { kind: 'chat', clients: 1, requests: 1, tokens: 64, body: greedy, promptWords: Math.floor(context * 0.7) };
    const { firstTokenMs, seconds, promptTokens } = await withServer('recua', { model, threads, parallel: 1, context }, (server) => runClients(server, work));
    console.log(`${String(context).padStart(7)}${((seconds * 1000 - firstTokenMs) / 63).toFixed(2).padStart(15)}${(promptTokens / (firstTokenMs / 1000)).toFixed(0).padStart(18)}`);
  }
}

async function byConversations({ model, threads, sizes = [1, 2, 4, 8, 16, 32, 64] }) {
  console.log('conversations   second turn, first token ms   without --cache-ram');
  for (const conversations of sizes) {
    const work = { kind: 'turns', conversations, turns: 2, tokens: 16, promptWords: 150 };
    const times = [];
    for (const flags of [[], ['--cache-ram', 0]]) {
      times.push(await withServer('recua', { model, threads, parallel: 4, context: 2048, flags }, async (server) => (await runClients(server, work)).secondTurnMs));
    }
    console.log(`${String(conversations).padStart(13)}${times[0].toFixed(1).padStart(30)}${times[1].toFixed(1).padStart(22)}`);
  }
}

export const tables = { clients: byClients, context: byContext, conversations: byConversations };

/**
 * @param {(keyof typeof tables)[]} names
 * @param {{ model: string, threads: number, sizes?: number[] }} settings
 */
export async function growth(names, settings) {
  for (const name of names) {
    await tables[name](settings);
    console.log('');
  }
}
