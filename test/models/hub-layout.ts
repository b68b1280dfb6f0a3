// Builds a hub cache by hand, byte for byte in the layout of Python's huggingface_hub.
import { createHash } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gguf, sound, types } from './gguf-bytes.js';
import type { Meta, Spec } from './gguf-bytes.js';

export const commitA = 'a'.repeat(40);
export const commitB = 'b'.repeat(40);

export function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** A valid model; `salt` makes its contents unique. */
export function model(salt = ''): Buffer {
  return gguf({ ...sound, metadata: [...sound.metadata!, ['test.salt', types.string, salt]] });
}

/** One part of a split model, valid alone and with the others. */
export function modelPart(index: number, total: number, salt = ''): Buffer {
  const split: Meta[] = [['split.no', types.u16, index], ['split.count', types.u16, total], ['split.tensors.count', types.i32, total], ['test.salt', types.string, salt]];
  const own = { name: `t${index}.weight`, shape: [32], type: 0, offset: 0 };
  const spec: Spec = { metadata: [...(index === 0 ? sound.metadata! : []), ...split], tensors: [own], dataBytes: 128 };
  return gguf(spec);
}

export function partFile(stem: string, part: number, total: number): string {
  const pad = (number: number) => String(number).padStart(5, '0');
  return `${stem}-${pad(part)}-of-${pad(total)}.gguf`;
}

export interface Entry {
  repo: string;
  file: string;
  bytes: Buffer | string;
  commit?: string;
  /** Refs to the commit; default `main`. */
  refs?: string[];
  /** As on a system without links: the snapshot holds the contents. */
  plain?: boolean;
}

export function folderOf(hub: string, repo: string): string {
  return join(hub, `models--${repo.replaceAll('/', '--')}`);
}

/** Adds a file; returns its path in the snapshot. */
export function put(hub: string, { repo, file, bytes, commit = commitA, refs = ['main'], plain = false }: Entry): string {
  const folder = folderOf(hub, repo);
  const path = join(folder, 'snapshots', commit, ...file.split('/'));
  const blob = join(folder, 'blobs', sha256(bytes));
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(dirname(blob), { recursive: true });
  if (plain) {
    writeFileSync(path, bytes);
  } else {
    writeFileSync(blob, bytes);
    symlinkSync(relative(dirname(path), blob), path);
  }
  for (const ref of refs) {
    const place = join(folder, 'refs', ...ref.split('/'));
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(place, commit);
  }
  return path;
}

export interface PartialEntry {
  repo: string;
  file: string;
  etag: string;
  sizeBytes: number;
  doneBytes: number;
  /** Instead of a valid journal. */
  journal?: string;
}

/** An incomplete download of Recua; returns the path of its blob without extension. */
export function putPartial(hub: string, { repo, file, etag, sizeBytes, doneBytes, journal }: PartialEntry): string {
  const blob = join(folderOf(hub, repo), 'blobs', etag);
  mkdirSync(dirname(blob), { recursive: true });
  writeFileSync(`${blob}.recua-partial`, Buffer.alloc(doneBytes));
  writeFileSync(`${blob}.recua-partial.json`, journal ?? JSON.stringify({ file, revision: commitA, size_bytes: sizeBytes, done_bytes: doneBytes }));
  return blob;
}
