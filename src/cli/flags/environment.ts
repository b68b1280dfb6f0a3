// The environment variables that are no flag: for `recua help environment`, docs/cli.md, the man
// page and `recua config`.

/**
 * Name and meaning. Those that begin with RECUA_ are no settings, so no flag may have their name.
 */
export const otherVariables: readonly (readonly [name: string, meaning: string])[] = [
  ['RECUA_CONFIG', 'The config file, instead of recua/config.json in XDG_CONFIG_HOME or ~/.config'],
  ['SERVICE_HOME', 'Base folder of models, sessions and state; ~/.cache/huggingface by default'],
  ['HUB_HOME', 'The hub\'s cache folder, instead of hub in the base folder (also HF_HUB_CACHE)'],
  ['HUB_TOKEN', 'Access token for private and gated models (also HF_TOKEN, or the file that HF_TOKEN_PATH names)'],
  ['HF_HOME', 'The hub\'s own base folder, where SERVICE_HOME is not set'],
  ['HF_ENDPOINT', 'Another hub than https://huggingface.co'],
  ['HF_HUB_OFFLINE', '1 asks no hub'],
  ['HTTPS_PROXY', 'Proxy for downloads (also HTTP_PROXY; NO_PROXY lists hosts that need none)'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'Collector for traces, where --traces names none; OpenTelemetry\'s other variables count, too'],
  ['NODE_EXTRA_CA_CERTS', 'File with further certificates to trust, as for all of Node'],
  ['NO_COLOR', 'Anything: no colors or styles; Markdown keeps its marks'],
  ['VISUAL', 'The editor that Ctrl-X Ctrl-E opens in a chat (also EDITOR)'],
  ['RECUA_ADDON', 'Path of a recua.node: the native addon to load, and no other'],
  ['RECUA_CPU_CHECK', 'off: a CPU library is used without having shown that it computes what it should'],
  ['RECUA_LLAMA_CPP', 'At build time: a llama.cpp of your own'],
  ['RECUA_CMAKE_ARGS', 'At build time: options for cmake'],
  ['RECUA_TEST_URL', 'For the tests: a server to run them on'],
  ['RECUA_FUZZ_SEED', 'For the tests: the seed of the fuzzed requests'],
  ['RECUA_EXIT_ROUNDS', 'For the tests: how often each way to end is tried'],
];

/** Exit codes of every command. */
export const exitCodes: readonly (readonly [code: string, meaning: string])[] = [
  ['0', 'done'],
  ['1', 'failed; the reason is on stderr'],
  ['2', 'called wrongly: an unknown command, flag or setting, or a value out of range'],
  ['130', 'stopped by Ctrl-C'],
  ['143', 'stopped by SIGTERM; 129 by the closing of its terminal'],
];
