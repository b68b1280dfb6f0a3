// A dialect of the HTTP API: its routes, the format of its errors, and for chats the reader of
// requests and the writer of answers. The sibling folders implement it; app mounts them.
import type { RequestHandler } from 'express';
import type { Finish } from '../../engine/api.js';
import type { ChatRequest, CompletionRequest, Delta, ModelDescription } from '../../engine/protocol.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import type { ErrorShape } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import type { Operation } from '../reference/operation.js';
import type { Frame, Framing } from '../http/stream.js';
import type { SocketRoute } from '../http/upgrades.js';

export interface Route {
  method: 'get' | 'post' | 'put' | 'delete';
  paths: readonly string[];
  handler: RequestHandler;
  /** Needs no API key. */
  isOpen?: boolean;
  /** Only keys with `admin` may use it. */
  isForAdmin?: boolean;
  /** Only ends work, so the limits of keys do not apply. */
  endsWork?: boolean;
  /** Its entry in the reference. */
  about: Operation;
  /** A POST without a body, or whose handler reads the body itself. */
  bodiless?: boolean;
  /** A POST whose body is optional; without one, it is an empty object. */
  mayLackBody?: boolean;
  /** A PUT, or a DELETE with a body. */
  takesBody?: boolean;
  /** Other methods of the same paths. */
  also?: OtherMethod | readonly OtherMethod[];
}

export type OtherMethod = Pick<Route, 'method' | 'handler' | 'about' | 'bodiless' | 'takesBody'>;

export interface Dialect {
  /** Middleware before each of its routes. */
  before: readonly RequestHandler[];
  routes(gateway: Gateway): readonly Route[];
  /**
   * Paths that it owns, with everything below: `before` runs there even if there is no such route.
   */
  under?: readonly string[];
  /** The format of errors there, if it is not OpenAI's. */
  errorShape?: ErrorShape;
  /** Bodies need not declare that they are JSON, except from browsers. */
  takesAnyType?: boolean;
  /** Its WebSocket routes. */
  sockets?(gateway: Gateway): readonly SocketRoute[];
}

/** What a reader needs besides the body. */
export interface ChatContext {
  defaults: RequestDefaults;
  model: Pick<ModelDescription, 'vocabSize' | 'contextSize'>;
}

export type EngineRequest = ChatRequest | CompletionRequest;

/** A parsed request; dialects add what their answers need. */
export interface ChatAsked {
  /**
   * The requests to the engine: for each prompt, one per answer, with different seeds. Answers are
   * numbered in this order.
   */
  prompts: readonly (readonly EngineRequest[])[];
  stream: boolean;
  /** Pause after each piece of a stream; what comes meanwhile goes into the next one. */
  intervalMs?: number;
  /** Reported together with the answer's own warnings. */
  warnings?: readonly string[];
}

/** Without the requests, which may be large and are dropped once the engine has them. */
export type AskedRest<Asked extends ChatAsked> = Omit<Asked, 'prompts'>;

export interface ChatDialect<Asked extends ChatAsked> {
  operation: 'chat' | 'text_completion';
  framing: Framing;
  /** `Asked` is as large as the body, so its memory counts until the answer has ended. */
  keepsBody?: boolean;
  read(body: Fields, context: ChatContext): Asked;
  writer(asked: AskedRest<Asked>, model: string): AnswerWriter;
}

/** Writes one or several answers, complete or as a stream. */
export interface AnswerWriter {
  /** Id of the answer, as clients see it. */
  readonly id?: string;
  /**
   * The model is loaded, and the request is valid. Called once, before all methods but `opening`,
   * `ping` and `failure`. `loadMs`: how long the request has waited for the model.
   */
  computedBy?(model: ModelDescription, loadMs: number): void;
  /** The engine has accepted the only prompt, which has so many tokens. */
  accepted?(promptTokens: number): void;
  /**
   * The first frames of a stream. `promptTokens` is undefined if it is not known yet, or if there
   * are several prompts.
   */
  opening(promptTokens?: number): Frame[];
  /** A frame to keep a silent stream alive. */
  ping(): Frame;
  /** `index`: number of the answer. */
  deltas(delta: Delta, index: number): Frame[] | Generator<Frame>;
  /** One of the answers is complete. */
  ended?(finish: Finish, index: number): Frame[] | Generator<Frame>;
  /** All answers are complete. */
  ending(finishes: readonly Finish[]): Frame[] | Promise<Frame[]>;
  /** The last frames of a stream that failed. `requestId`: that of its headers. */
  failure(error: RecuaError, requestId: string): Frame[];
  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): object | Promise<object>;
}
