// A request message of the protocol → the engine's method for it. Called where the engine runs: by
// host for messages from another process, by local in the same process.
import { setImmediate } from 'node:timers/promises';
import type { NativeModel } from '../../addon/addon.js';
import { renderChat } from '../prompts/chat.js';
import { isLong, takesLong } from '../prompts/pool-share.js';
import { checkTokenizable, checkTokens } from '../prompts/known-tokens.js';
import type { EngineLoop } from '../loop/engine-loop.js';
import type { RequestMessage } from '../protocol.js';

/** Pieces looked up before yielding to the event loop: less than a millisecond. */
const piecesAtOnce = 1_024;

export function deliver(engine: EngineLoop, m: RequestMessage): void {
  switch (m.type) {
    case 'chat': return engine.chat(m.id, m.request, m.begun);
    case 'complete': return engine.complete(m.id, m.request, m.begun);
    case 'embed':
    case 'rerank': return engine.embed(m.id, m.request);
    case 'render': return engine.ask(m.id, { takesLong: takesLong(m.request), client: m.request.asker?.client }, (model, cancelled, { chatTemplate }) => renderChat(model, chatTemplate, m.request, cancelled));
    case 'tokenize': return engine.ask(m.id, { takesLong: isLong([m.text]), client: m.asker?.client }, async (model, cancelled) => {
      checkTokenizable(m.text, 'content');
      return await model.tokenize(m.text, m.addSpecial, m.parseSpecial, { cancelled });
    });
    case 'detokenize': return engine.ask(m.id, { takesLong: isLong([m.tokens]), client: m.asker?.client }, async (model) => {
      checkTokens(m.tokens, model.info.vocabSize, 'tokens');
      return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await model.detokenize(m.tokens, m.special));
    });
    case 'pieces': return engine.ask(m.id, { takesLong: false }, async (model) => {
      checkTokens(m.tokens, model.info.vocabSize, 'tokens');
      return await piecesOf(model, m.tokens);
    });
    case 'save': return engine.keep(m.id, (keeper, context, betweenSteps) => keeper.save(context, betweenSteps, m.path));
    case 'restore': return engine.keep(m.id, (keeper, context, betweenSteps) => keeper.restore(context, betweenSteps, m.path));
    case 'forget': return engine.keep(m.id, (keeper, context, betweenSteps) => keeper.forget(context, betweenSteps));
  }
}

async function piecesOf(model: NativeModel, tokens: Int32Array): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for (const token of tokens) {
    pieces.push(model.piece(token, true));
    if (pieces.length % piecesAtOnce === 0) await setImmediate();
  }
  return pieces;
}
