// `recua import`: adds a GGUF file of this machine to the store, so that it has a name like a model
// of the hub.
import type { SingleBar } from 'cli-progress';
import { sizeText } from '../../models/byte-size.js';
import { checkAlias } from '../../models/aliases.js';
import { importModel } from '../../models/cache/local-import.js';
import type { Imported, ImportMode } from '../../models/cache/local-import.js';
import { findPlaces } from '../../models/places.js';
import { checkRepo } from '../../models/names/safe-names.js';
import { shellWord } from '../../models/names/shell-word.js';
import { command } from '../command.js';
import { asTyped, misuse, on, perCall, text } from '../flags/flags.js';
import { print, toJson } from '../terminal/output.js';
import { watchSignals } from '../terminal/signals.js';
import { plain } from '../terminal/wording.js';

export const importCommand = command({
  name: 'import',
  aliases: [],
  operands: '<path>',
  summary: 'Import a GGUF file into the store',
  details: 'The file is checked first. Without --copy or --symlink, it is hard-linked if the file system allows, which takes no extra space; otherwise it is copied. '
    + 'For a split model, give the first part; the others are imported with it. '
    + 'If this added the model, recua rm of the alias removes both; if the store had the model before, only the alias.',
  examples: [
    ['recua import model-Q4_K_M.gguf', 'Import it as local/model-Q4_K_M'],
    ['recua import model.gguf -a tiny', 'Import it and call it tiny: recua run tiny -p "Hello"'],
    ['recua import /data/big-00001-of-00004.gguf --symlink', 'Leave all four parts where they are'],
  ],
  flags: {
    copy: perCall(on(['--copy'], 'Copy the file, so that later changes to it do not affect the store')),
    symlink: perCall(on(['--symlink', '--link'], 'Only link to the file, which must stay where it is')),
    alias: perCall(text(['--alias', '-a'], 'name', 'Give the model this name for later commands')),
    name: perCall(text(['--name'], 'owner/repo', 'Import it into this repository; by default local/ and the file\'s name')),
    force: perCall(on(['--force', '-F'], 'Replace another model of the same name, repair a damaged one, and move an alias that is in use')),
    quiet: on(['--quiet', '-q'], 'Show no progress'),
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands, given }) {
    const [path, ...surplus] = operands;
    if (path === undefined || path === '') throw misuse('Expected a file: recua import <path>.');
    if (surplus.length > 0) throw misuse(`Expected one file, got ${operands.length}. For a split model, give the first part; import other models one by one.`);
    if (values.copy && values.symlink) throw misuse('Expected --copy or --symlink, got both.');
    for (const flag of ['alias', 'name'] as const) if (given.has(flag) && values[flag] === '') throw misuse(`Expected a name for --${flag}, got an empty one.`);
    if (values.alias !== '') asTyped(() => checkAlias(values.alias));
    if (values.name !== '') asTyped(() => checkRepo(values.name));
    const mode: ImportMode = values.copy ? 'copy' : values.symlink ? 'symlink' : 'auto';
    const bar = new ImportBar(values.quiet || values.json, (await import('cli-progress')).SingleBar);
    const stop = watchSignals();
    try {
      const done = await importModel(findPlaces(), { path, mode, repo: values.name, alias: values.alias, force: values.force },
        { signal: stop.signal, progress: (doing, doneBytes, totalBytes) => bar.show(doing, doneBytes, totalBytes) });
      bar.end();
      await print(values.json ? asJson(path, done) : asText(path, done, values.alias));
      return 0;
    } finally {
      bar.end();
      stop.release();
    }
  },
});

function asText(path: string, { model, by, already, aliases }: Imported, alias: string): string {
  const what = already ? `is already in the store as ${model.name}; no second model was made` : {
    'hard link': `is in the store now: hard-linked, so it takes no extra space; changing the file would change the model`,
    'copy': `is in the store now: ${sizeText(model.sizeBytes)} copied`,
    'copy-on-write copy': 'is in the store now: copied, sharing disk space until one of the two files changes',
    'symlink': `is in the store now: a link to ${model.parts[0]?.target}, which must stay there`,
    'none': 'is in the store now: its contents were already there',
  }[by];
  const parts = model.totalParts > 1 ? ` (${model.totalParts} parts)` : '';
  const names = [model.name, ...aliases];
  return plain(`${path}${parts} ${what}.`) + `\nName${names.length > 1 ? 's' : ''}: ${names.map(plain).join(', ')}\nTry: recua run ${shellWord(plain(alias || (aliases[0] ?? model.name)))} -p "Hello"\n`;
}

function asJson(path: string, { model, by, already, aliases }: Imported): string {
  return toJson({
    source: path,
    name: model.name,
    aliases,
    repo: model.repo,
    file: model.file,
    path: model.parts[0]?.path ?? null,
    parts: model.totalParts,
    size_bytes: model.sizeBytes,
    method: by === 'none' ? null : by.replaceAll(/[ -]/g, '_'),
    already,
  });
}

/** A progress bar on stderr for each long step; silent if stderr is not a terminal. */
class ImportBar {
  readonly #quiet: boolean;
  readonly #Bar: typeof SingleBar;
  #bar: SingleBar | undefined;
  #doing = '';

  constructor(quiet: boolean, Bar: typeof SingleBar) {
    this.#Bar = Bar;
    this.#quiet = quiet || !process.stderr.isTTY;
  }

  show(doing: string, doneBytes: number, totalBytes: number): void {
    if (this.#quiet) return;
    if (this.#doing !== doing) {
      this.end();
      this.#doing = doing;
      this.#bar = new this.#Bar({
        stream: process.stderr, clearOnComplete: true, hideCursor: false, format: '{doing} [{bar}] {percentage} % of {size}, {eta_formatted} left',
        barCompleteChar: '=', barIncompleteChar: ' ', gracefulExit: false, linewrap: true,
      });
      this.#bar.start(totalBytes, 0, { doing: doing === 'checking' ? 'Checking' : 'Copying ', size: sizeText(totalBytes) });
    }
    this.#bar?.update(doneBytes);
  }

  end(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#doing = '';
  }
}
