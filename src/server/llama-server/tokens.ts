// The bodies of POST /tokenize and /detokenize, and the pieces of tokens. Pure. Called by dialect.
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { readTokens } from '../../request/tokens.js';
import type { ChatContext } from '../exchange/dialect.js';

const maxTokens = 1_000_000;

export interface TokenizeQuestion {
  text: string;
  addSpecial: boolean;
  parseSpecial: boolean;
  withPieces: boolean;
}

export function readTokenize(body: Fields): TokenizeQuestion {
  const text = body.string('content');
  if (text === undefined) throw wrongType('content', 'a string', undefined);
  return {
    text,
    addSpecial: body.boolean('add_special') ?? false,
    parseSpecial: body.boolean('parse_special') ?? true,
    withPieces: body.boolean('with_pieces') ?? false,
  };
}

export function readDetokenize(body: Fields, { model: { vocabSize } }: ChatContext): Int32Array {
  const tokens = body.array('tokens', maxTokens);
  if (tokens === undefined) throw wrongType('tokens', 'an array of tokens', undefined);
  return tokens.length === 0 ? new Int32Array() : readTokens(tokens, 'tokens', vocabSize);
}

/** @throws RecuaError `invalid_value` if there are too many tokens to list with their pieces. */
export function checkListed(tokens: Int32Array): void {
  if (tokens.length > maxTokens) throw wrongValue('content', `at most ${maxTokens} tokens with their pieces; send the text in parts`, tokens.length);
}

/**
 * The pieces of `tokens`; `pieces` are those of `distinct`. A piece is a string, or its bytes if
 * they are not valid UTF-8.
 */
export function piecesOf(
  tokens: Int32Array,
  distinct: Int32Array,
  pieces: readonly Uint8Array[],
): { id: number; piece: string | number[] }[] {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const known = new Map<number, { id: number; piece: string | number[] }>();
  for (const [index, id] of distinct.entries()) {
    const bytes = pieces[index]!;
    try {
      known.set(id, { id, piece: decoder.decode(bytes) });
    } catch {
      known.set(id, { id, piece: Array.from(bytes) });
    }
  }
  return Array.from(tokens, (id) => known.get(id)!);
}
