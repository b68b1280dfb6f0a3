// Reads a GGUF file on the hub in place: show reads the header of a 100 GB file with a few
// requests. Called by show, in the command's process.
import { RecuaError } from '../../errors.js';
import type { ByteSource } from '../gguf/byte-source.js';
import { chooseModel, groupModels } from './gguf-files.js';
import { Hub } from './hub.js';
import type { HubFile, OnSetback } from './hub.js';
import { NoRanges, RemoteFile } from './remote-file.js';
import { readRepositoryName } from '../names/repository-name.js';

export interface RemoteModelFiles {
  /** Path in the repository of its file or first part. */
  file: string;
  /** Opens a file of the same repository and commit, such as another part. */
  open(path: string): Promise<ByteSource>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Finds `owner/repo`, `owner/repo:Q4_K_M` or `owner/repo/file.gguf` on the hub, without reading the
 * file yet.
 */
export async function openRemoteModel(
  name: string,
  environment: Environment = process.env,
  onSetback?: OnSetback,
): Promise<RemoteModelFiles> {
  const hub = await Hub.fromEnvironment(environment, onSetback);
  const { repo, revision = 'main', word, file: path } = readRepositoryName(name, hub.endpoint);
  const wanted = word ?? path;
  const commit = await hub.commitOf(repo, revision);
  const { files } = await hub.list(repo, commit);
  const [first] = (wanted === undefined ? onlyModel(repo, files) : chooseModel(repo, files, wanted)).files;
  return {
    file: first.path,
    async open(path) {
      const file = files.find((one) => one.path === path);
      if (!file) throw new RecuaError('repository_file_not_found', `${repo} has no file ${path}. See what it has: recua pull ${repo}`);
      return new RemoteSource(`${repo}/${path}`, new RemoteFile({ hub, repo, commit, file, onSetback }));
    },
  };
}

function onlyModel(repo: string, files: readonly HubFile[]): ReturnType<typeof chooseModel> {
  const models = groupModels(files).filter((one) => one.kind === 'model');
  const [model] = models;
  if (!model) throw new RecuaError('repository_file_not_found', `${repo} has no GGUF files. Look for a repository with GGUF in its name.`);
  if (models.length > 1) {
    throw new RecuaError('ambiguous_model',
      `Expected one model of ${repo}, it has ${models.length}. Name one, like ${repo}:${model.quantization || model.files[0].path}; all of them: recua pull ${repo}`);
  }
  return chooseModel(repo, files, model.files[0].path);
}

const blockBytes = 1024 * 1024;
/** A header is read forward, so each request reads more than the one before. */
const mostBlocksAtOnce = 8;
/** Vocabularies are read twice; the largest headers take about 30 MiB. */
const keptBlocks = 48;

class RemoteSource implements ByteSource {
  readonly name: string;
  readonly sizeBytes: number;
  readonly #remote: RemoteFile;
  /** In order of arrival. */
  readonly #blocks = new Map<number, Buffer>();
  readonly #closing = new AbortController();
  #blocksAtOnce = 1;

  constructor(name: string, remote: RemoteFile) {
    this.name = name;
    this.#remote = remote;
    this.sizeBytes = remote.file.sizeBytes;
  }

  async read(target: Buffer, offset: number): Promise<number> {
    const end = Math.min(this.sizeBytes, offset + target.length);
    let at = offset;
    while (at < end) {
      const index = Math.floor(at / blockBytes);
      const block = this.#blocks.get(index) ?? await this.#fetch(index);
      const from = at - index * blockBytes;
      at += block.copy(target, at - offset, from, Math.min(block.length, from + end - at));
    }
    return Math.max(0, at - offset);
  }

  async close(): Promise<void> {
    this.#closing.abort(new RecuaError('closed', `${this.name} was read after close().`));
    this.#blocks.clear();
  }

  async #fetch(index: number): Promise<Buffer> {
    this.#blocksAtOnce = this.#blocks.has(index - 1) ? Math.min(mostBlocksAtOnce, this.#blocksAtOnce * 2) : 1;
    const start = index * blockBytes;
    const bytes = await this.#readWhole(start, Math.min(this.sizeBytes, start + this.#blocksAtOnce * blockBytes));
    for (let at = 0; at < bytes.length; at += blockBytes) {
      this.#blocks.set(index + at / blockBytes, bytes.subarray(at, at + blockBytes));
    }
    for (const old of this.#blocks.keys()) {
      if (this.#blocks.size <= keptBlocks) break;
      this.#blocks.delete(old);
    }
    return bytes.subarray(0, blockBytes);
  }

  async #readWhole(from: number, to: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    try {
      for await (const piece of this.#remote.read(from, to, this.#closing.signal)) pieces.push(piece);
    } catch (thrown) {
      if (!(thrown instanceof NoRanges)) throw thrown instanceof RecuaError ? thrown : new RecuaError('download_changed', `${this.name}: ${(thrown as Error).message}. Try again.`, { cause: thrown });
      return await this.#readWhole(from, to);
    }
    return Buffer.concat(pieces);
  }
}
