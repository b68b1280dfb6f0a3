// What a dialect of the HTTP API is: routes, the shape of its errors, and for chats how it reads a
// request and writes an answer. The folders beside this one implement it; app mounts them.
import type { RequestHandler } from 'express';
import type { Finish } from '../../engine/api.js';
import type { ChatRequest, CompletionRequest, Delta, ModelDescription } from '../../engine/protocol.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import type { Gateway } from '../http/gateway.js';
import type { Operation } from '../reference/operation.js';
import type { Frame, Framing } from '../http/stream.js';
import type { SocketRoute } from '../http/upgrades.js';

export interface Route {
  method: 'get' | 'post' | 'put' | 'delete';
  paths: readonly string[];
  handler: RequestHandler;
  /** No API key is asked for. */
  isOpen?: boolean;
  /** Of the keys only those that may change the server open it. */
  isForAdmin?: boolean;
  /** What it is for. */
  about: Operation;
  /** A POST whose body says nothing, or is read by the handler. */
  bodiless?: boolean;
  /** A POST that may come without a body, which is an empty object then. */
  mayLackBody?: boolean;
  /** A PUT, or a DELETE that says in its body what goes. */
  takesBody?: boolean;
  /** What other methods do at the same paths. */
  also?: OtherMethod | readonly OtherMethod[];
}

export type OtherMethod = Pick<Route, 'method' | 'handler' | 'about' | 'bodiless' | 'takesBody'>;

export interface Dialect {
  /** Comes before each of its routes. */
  before: readonly RequestHandler[];
  routes(gateway: Gateway): readonly Route[];
  /** Paths that are its own with all below them: what is no route there is told in its words. */
  under?: readonly string[];
  /** Its clients do not say that their bodies are JSON; those of programs are taken as such. */
  takesAnyType?: boolean;
  /** What is spoken over a connection that stays open. */
  sockets?(gateway: Gateway): readonly SocketRoute[];
}

/** What reading a request takes beside its body. */
export interface ChatContext {
  defaults: RequestDefaults;
  model: Pick<ModelDescription, 'vocabSize' | 'contextSize'>;
}

export type EngineRequest = ChatRequest | CompletionRequest;

/** A request as it was read; a dialect adds what its answers depend on. */
export interface ChatAsked {
  /**
   * What the engine is asked: for each prompt as many answers as are wanted, which differ in their
   * seeds. Answers are numbered in this order.
   */
  prompts: readonly (readonly EngineRequest[])[];
  stream: boolean;
  /** Told with the answer's own. */
  warnings?: readonly string[];
}

/** The requests are let go of once the engine has them: they may be large. */
export type AskedRest<Asked extends ChatAsked> = Omit<Asked, 'prompts'>;

export interface ChatDialect<Asked extends ChatAsked> {
  operation: 'chat' | 'text_completion';
  framing: Framing;
  /** What was asked is as large as the body: its memory counts until the answer has ended. */
  keepsBody?: boolean;
  read(body: Fields, context: ChatContext): Asked;
  writer(asked: AskedRest<Asked>, model: string): AnswerWriter;
}

/** Writes the answer, or all of them, whole or as a stream. */
export interface AnswerWriter {
  /** By which clients know the answer. */
  readonly id?: string;
  /** The model is loaded, and what it says is known to go on. Called once, before all else. */
  computedBy?(model: ModelDescription): void;
  /** What a stream begins with; without `promptTokens` where these are not known yet. */
  opening(promptTokens?: number): Frame[];
  /** For a stream that is silent. */
  ping(): Frame;
  /** `index` is the answer's number, where there are several. */
  deltas(delta: Delta, index: number): Frame[];
  /** One of the answers is complete. */
  ended?(finish: Finish, index: number): Frame[];
  /** All are. */
  ending(finishes: readonly Finish[]): Frame[] | Promise<Frame[]>;
  /** The last word of a stream that failed. */
  failure(error: RecuaError): Frame[];
  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): object | Promise<object>;
}
