// The reference entry of a route: its purpose, its body, its replies. Pure.
import type { ErrorCode } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import type { Words } from '../../request/words.js';
import type { Schema } from './schema.js';

export type Topic = 'Chat completions' | 'Completions' | 'Responses' | 'Messages' | 'Ollama' | 'Embeddings and reranking' | 'Tokens' | 'Models' | 'Files and batches' | 'Saved chats' | 'Server';

/** A JSON body. Several routes may share one. */
export interface Body {
  /** Name of its schema. */
  name: string;
  /** The reader that checks the body in the route. */
  read(body: Fields): unknown;
  /**
   * Valid bodies; the first is the one shown. Together they contain every object that a body may
   * hold.
   */
  examples: readonly Readonly<Record<string, unknown>>[];
  words: Words;
}

/** A form with a file, which no JSON reader parses. */
export interface Form {
  form: Schema;
  /** Arguments of curl. */
  shown: readonly string[];
}

export interface Reply {
  schema: Schema;
  /** JSON if absent. */
  type?: 'text/plain' | 'application/octet-stream';
  /** Replies with another status than 200. */
  others?: Readonly<Record<number, { text: string; schema: Schema }>>;
  /** The reply has no body. */
  empty?: true;
  /** The connection becomes a WebSocket. */
  opensSocket?: true;
}

export interface Operation {
  /** The name that generated clients give the operation. */
  id: string;
  topic: Topic;
  /** One line. */
  summary: string;
  /** Markdown. */
  about?: string;
  /** Descriptions of path parameters. */
  params?: Readonly<Record<string, string>>;
  /** Those with an example are required. */
  query?: Readonly<Record<string, Schema>>;
  /** Required headers, with an example of each. */
  headers?: Readonly<Record<string, { description: string; example: string }>>;
  body?: Body | Form;
  reply: Reply;
  /** An event of the stream, if the request asks for one or the route only streams. */
  stream?: { type: 'text/event-stream' | 'application/x-ndjson'; event: Schema };
  /** Schema of its errors. */
  error: Schema;
  /** In addition to `routeErrors` and, with a body, `bodyErrors`. */
  errors: readonly ErrorCode[];
}

export function isBody(body: Body | Form | undefined): body is Body {
  return body !== undefined && 'read' in body;
}

/** Errors of routes that a model answers. */
export const inferenceErrors: readonly ErrorCode[] = [
  'unsupported_parameter', 'unknown_parameter', 'model_not_found', 'ambiguous_model', 'model_unusable', 'invalid_gguf', 'model_too_large', 'sandbox_unavailable', 'model_crashed', 'model_stuck', 'generation_failed',
  'request_set_aside', 'too_many_open_files', 'model_loading', 'queue_full', 'queue_timeout', 'cancelled', 'context_length_exceeded',
];

/** Errors of chats; includes `inferenceErrors`. */
export const chatErrors: readonly ErrorCode[] = [...inferenceErrors, 'unsupported_content', 'invalid_grammar', 'invalid_schema', 'invalid_messages', 'chat_unsupported', 'no_token_left'];

/** Errors of routes that take a body, in addition to `routeErrors`. */
export const bodyErrors: readonly ErrorCode[] = ['invalid_json', 'invalid_type', 'invalid_value', 'body_too_large', 'unsupported_media_type', 'request_timeout', 'rate_limit_exceeded'];

/** Errors of any route. */
export const routeErrors: readonly ErrorCode[] = ['invalid_api_key', 'client_refused', 'method_not_allowed', 'shutting_down', 'body_memory_full', 'internal_error'];
