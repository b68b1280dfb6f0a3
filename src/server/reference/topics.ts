// What is said of the API as a whole, and of each group of its routes. Markdown. Used by document.
import type { Topic } from './operation.js';

export const aboutAll = [
  'A GGUF model, or several, behind the APIs of OpenAI, Anthropic, Ollama and llama-server.',
  '**Requests.** Bodies are JSON and say so (`Content-Type: application/json`; Ollama\'s routes ask that of browsers alone), compressed by gzip, deflate or br if you like. A field '
  + 'that is `null` counts as absent. A field whose name is nearly that of one that is listed (`max_token`) is a 400; other fields that are not listed have no effect, and the answer\'s '
  + '`warnings` name them. All bodies together may take the memory that `--body-memory` grants; beyond it requests get a 503 with `Retry-After`. A `GET` route takes `HEAD`, too, and each '
  + 'route `OPTIONS`.',
  '**Keys.** A server that has keys (`--api-key`, [security.md](security.md)) asks for one on every route but `/health`, `/health/live` and `/health/ready`; the page at `/` asks its user for it: `Authorization: Bearer …` or `x-api-key: …`. A key may have limits: past one a `POST` is a 429 `rate_limit_exceeded` with `Retry-After`, and replies tell what is left in `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests` and the same with `-tokens`, as OpenAI\'s do. A model that it may not use is a 403. Files, batches and stored responses are there for the key that made them.',
  '**Models.** With one model, `model` may be left out or be `default`. Else it takes any name of a model: an unknown one is a 404 with the nearest, never another model and never a '
  + 'download. A request for a model that is not loaded waits for it; streams have empty chunks meanwhile.',
  '**Turns.** `--parallel` requests run at once, `--queue-size` more wait, and others get a 429 with `Retry-After`; so does who waited for `--queue-timeout`. Where the queue is full, a client with several more requests in it than one that comes gives up its last. Clients take turns, by their API keys or else '
  + 'their addresses: next is the one that was given the fewest tokens. `service_tier` goes before that. `X-Queue-Position` tells the place that a request had when it came, where it had to wait.',
  '**Errors** have a code and the field at fault, in the shape that the clients of the route know. The status comes before the first byte of a stream; what goes wrong later is its last event.',
  '**Pages.** Any web page may ask a model. Where no key is asked for, files and batches are for programs, and for pages that call the server `localhost` or by its address; models are pulled, copied and deleted '
  + 'for clients on its own machine alone.',
  '**Balancers.** A stream opens when its prompt is accepted. With `x-stream-opens: first-piece` no byte comes before the first piece (or 55 seconds): until then a balancer may send the request '
  + 'to another server, and a server that stops refuses it with a 503. `recua cluster config` writes balancers that ask for it.',
  '**Next turns.** The next turn of a chat reads what is new and nothing else: what the model said stays the tokens that it said.',
].join('\n\n');

const schemas = '**Forms of an answer.** A JSON schema is enforced while the answer is written: types, properties, `enum`, `anyOf`, `allOf`, `$ref`, bounds of numbers (over all of int64), '
  + 'lengths, patterns and more. What a grammar cannot enforce (`uniqueItems`, `not`, `if` …) is a 400 with its JSON pointer where the schema has `strict: true`; else, as `strict` is off '
  + 'by default, the answer\'s `warnings` name it. The same goes for a tool\'s parameters and its `function.strict`. `regex`, `choice` and `grammar`, each also under vLLM\'s `guided_…` and in its '
  + '`structured_outputs`, are other forms. A request has one form, in all APIs. If the prompt ends inside thinking, the form holds from where the thinking ends; that of the field `grammar`, as with llama-server, from the first token on.';

const tools = '**Tools.** `tool_choice` with `required`, with a tool\'s name or with `allowed_tools` of that mode forces a call: behind what the model thinks, nothing but calls of these tools can be '
  + 'sampled. A chat template that knows no calls is a 400 then. The input of a custom tool keeps to its regular expression or Lark grammar while it is written, with every chat '
  + 'template that knows tools. A Lark grammar is read as one of characters, without a lexer: rules, terminals, strings (`i`), regular expressions, ranges, `? * + ~`, `%ignore` and what `common` has; '
  + 'no templates and no other imports.';

const history = '[history.md](history.md) has what becomes of messages as clients send them: turns in a row, calls that were cut off, an answer that is begun, and `"truncation": "auto"` for a '
  + 'conversation that does not fit the context.';

export const topics: Readonly<Record<Topic, string>> = {
  'Chat completions': [schemas, tools, history].join('\n\n'),
  Completions: 'A text goes on, without a chat template.',
  Responses: 'Responses are kept for 30 days (`--response-days`; 0 keeps none), the newest 1 GiB of them, unless the request says `store: false` or they are deleted. What a server keeps is in a '
    + 'folder that its user alone can read: `recua/kept-UID` beside the hub\'s cache. Servers of one user share it.',
  Messages: 'As Anthropic\'s clients speak, Claude Code among them.',
  Ollama: '`name:latest` is `name`. A chat without messages loads a model, with `keep_alive` 0 unloads it.',
  'Embeddings and reranking': 'Texts become vectors, or are put in order.',
  Tokens: 'What a model would read.',
  Models: 'Which models there are, and which are loaded. Each is a process of its own. It leaves `--keep-alive` seconds (`keep_alive` of a request) after its last request, or when another needs its '
    + 'memory and it answers nobody.',
  'Files and batches': 'Files are kept until they are deleted or expire: at most 10,000 and 16 GiB. A batch is a file of requests for chats, completions, embeddings or responses. Its lines run `--parallel` '
    + 'at once (8 at most), and only while nobody has waited for the server for a second; when somebody comes and there is no room for all, lines give way and are done anew later. A batch may '
    + 'take as long as its `completion_window` says. A stopped or killed server goes on when it starts again.',
  'Saved chats': 'What `recua chat` saves, for the page at `/`: served where the server was started with `--ui-sessions`, to keys with `admin`, and without keys to clients on its own machine. A chat that '
    + 'a terminal has open is written by that terminal alone (`session_locked`); one that changed since it was read is not written over (`session_changed`). A session has `model`, `system`, `sampling` and '
    + '`messages`: `{"role": "user", "content", "sent_at"}` and `{"role": "assistant", "content", "ended"}` by turns, as `recua sessions` keeps them.',
  Server: 'How the server is, and what it serves.',
};
