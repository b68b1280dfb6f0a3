// What a route says of itself for the reference: what it is for, its body, its replies. Pure.
import type { ErrorCode } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import type { Words } from '../../request/words.js';
import type { Schema } from './schema.js';

export type Topic = 'Chat completions' | 'Completions' | 'Responses' | 'Messages' | 'Ollama' | 'Embeddings and reranking' | 'Tokens' | 'Models' | 'Files and batches' | 'Saved chats' | 'Server';

/** A JSON body. Several routes may take the same. */
export interface Body {
  /** Of its schema. */
  name: string;
  /** What checks it, as the route does. */
  read(body: Fields): unknown;
  /**
   * Bodies that are taken, the first of them the one that is shown. Together they have each object
   * that a body may hold.
   */
  examples: readonly Readonly<Record<string, unknown>>[];
  words: Words;
}

/** A form with a file, which no JSON reader takes apart. */
export interface Form {
  form: Schema;
  /** Arguments of curl. */
  shown: readonly string[];
}

export interface Reply {
  schema: Schema;
  /** JSON where it says nothing. */
  type?: 'text/plain' | 'application/octet-stream';
  /** What of the reply's status is not 200. */
  others?: Readonly<Record<number, { text: string; schema: Schema }>>;
  /** There is no body. */
  empty?: true;
}

export interface Operation {
  /** The name that generated clients give it. */
  id: string;
  topic: Topic;
  /** One line. */
  summary: string;
  /** Markdown. */
  about?: string;
  /** Of what stands in the path. */
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, Schema>>;
  /** Headers that it must have, with an example of each. */
  headers?: Readonly<Record<string, { description: string; example: string }>>;
  body?: Body | Form;
  reply: Reply;
  /** Each event of a stream, where the request asks for one or there is nothing else. */
  stream?: { type: 'text/event-stream' | 'application/x-ndjson'; event: Schema };
  /** Whose errors it answers with. */
  error: Schema;
  /** Beside those that any route may answer with, and any that takes a body. */
  errors: readonly ErrorCode[];
}

export function isBody(body: Body | Form | undefined): body is Body {
  return body !== undefined && 'read' in body;
}

/** Errors of routes that a model answers. */
export const inferenceErrors: readonly ErrorCode[] = [
  'unsupported_parameter', 'unknown_parameter', 'model_not_found', 'model_unusable', 'model_too_large', 'model_crashed', 'model_stuck', 'request_set_aside', 'model_loading', 'queue_full', 'queue_timeout', 'cancelled', 'context_length_exceeded',
];

/** Errors of chats, beside them. */
export const chatErrors: readonly ErrorCode[] = [...inferenceErrors, 'unsupported_content', 'invalid_grammar', 'invalid_schema', 'invalid_messages', 'chat_unsupported', 'no_token_left'];

/** Of routes that take a body, beside `routeErrors`. */
export const bodyErrors: readonly ErrorCode[] = ['invalid_json', 'invalid_type', 'invalid_value', 'body_too_large', 'unsupported_media_type', 'request_timeout', 'body_memory_full', 'rate_limit_exceeded'];

/** Of any route. */
export const routeErrors: readonly ErrorCode[] = ['invalid_api_key', 'method_not_allowed', 'shutting_down', 'internal_error'];
