// The built-in model in this process, and an answer of a few tokens with a grammar: the subject of
// the kinds schemas, grammars, patterns and templates.
import type { ChatInput, ChatPrompt, NativeAddon, NativeContext, NativeModel } from '#recua/addon/addon.js';
import type { Outcome } from '../kind.js';

export interface NativeSubject {
  model: NativeModel;
  addon: NativeAddon;
  chatPrompt(model: NativeModel, content: string, more?: Partial<ChatInput>): Promise<ChatPrompt>;
  /** Samples some tokens with a grammar. */
  follow(grammar: string): Promise<Outcome>;
  close(): Promise<void>;
}

/** Codes of unsupported requests. */
const refusals = new Set(['invalid_schema', 'invalid_grammar', 'invalid_messages', 'invalid_value', 'invalid_type', 'chat_unsupported', 'no_token_left']);
export const isRefusal = (code: string): boolean => refusals.has(code);

export async function openNative(): Promise<NativeSubject> {
  const { addon, chatPrompt, contextOptions, loadBuiltin, step } = await import('../../native/setup.js');
  const model = await loadBuiltin();
  const context: NativeContext = await model.createContext(contextOptions({ contextSize: 64, sequences: 1 }));
  const begin = await model.tokenize('a', true, false);
  const { flags } = await model.pieces(false);
  const subject: NativeSubject = {
    model, addon, chatPrompt,
    async follow(grammar) {
      const sampler = await model.createSampler({ temperature: 1, seed: 1, grammar }, begin);
      try {
        let tokens = begin;
        for (let from = 0, drawn = 0; drawn < 4; drawn++) {
          const result = await step(context, [{ sequence: 0, from, tokens, sampler }]);
          from += tokens.length;
          const token = result.tokens[0] === -3 ? await sampler.decide() : result.tokens[0]!;
          if (token < 0 || (flags[token]! & 1) !== 0) break;
          tokens = Int32Array.of(token);
        }
        return 'accepted';
      } finally {
        sampler.close();
        await context.removeSequence(0, 0, -1);
      }
    },
    async close() {
      const { prompt } = await chatPrompt(model, 'Hello');
      if (!prompt.includes('Hello')) throw new Error(`A plain chat becomes ${JSON.stringify(prompt)}.`);
      await subject.follow('root ::= "a" | "b"');
      await context.close();
      await model.close();
    },
  };
  return subject;
}
