// Which names may become paths in the model store. Users and the hub supply names, so each is
// checked here before it is joined to a folder: nothing escapes the store, and a store written on
// one system is readable on another.
import { RecuaError } from '../../errors.js';
import { partOf, stemOf } from './model-names.js';

/**
 * File systems allow 255 bytes per name; the rest leaves room for the cache's own folders within
 * the limits of Windows and Linux.
 */
const longestNameBytes = 240;
const longestPathBytes = 800;

/** `owner/repo`, or `repo` alone, as the hub's oldest ones are named. */
const repoPart = /^[\p{L}\p{N}_](?:[\p{L}\p{M}\p{N}._-]{0,94}[\p{L}\p{M}\p{N}_])?$/u;
const deviceNames = /^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;
/** Characters that not every file system keeps. */
const forbidden = /[\\:*?"<>|]/u;
/** Control characters, text direction overrides and lone surrogates. */
const control = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** An address as messages show it: without a user's name and password, even if it is malformed. */
export const withoutUser = (address: string): string => address.replace(/^([a-z][a-z\d+.-]*:\/\/)?[^]*@/i, '$1');

function refuse(what: string, given: string, why: string, expected: string): RecuaError {
  return new RecuaError('invalid_name', `Expected ${expected} for ${what}, got ${quote(given)}: ${why}.`);
}

/**
 * Returns the repository's parts, one or two. Rejects `--`, because the cache writes it for `/`.
 */
export function checkRepo(repo: string): string[] {
  const expected = 'owner/name, made of letters, digits, ".", "_" and "-",';
  const parts = repo.split('/');
  if (parts.length > 2) throw refuse('the repository', repo, `it has ${parts.length} parts`, expected);
  for (const part of parts) {
    if (!repoPart.test(part)) throw refuse('the repository', repo, part === '' ? 'a part of it is empty' : `${quote(part)} holds something else, begins or ends with "." or "-", or is longer than 96 characters`, expected);
    if (part.includes('--') || part.includes('..')) throw refuse('the repository', repo, 'it holds "--" or ".."', expected);
  }
  if (Buffer.byteLength(`models--${parts.join('--')}`) > longestNameBytes) throw refuse('the repository', repo, 'it is too long', expected);
  return parts;
}

/** Returns the segments of a path inside a repository, which uses `/` on every system. */
export function checkRepoFile(file: string): string[] {
  return checkSegments('the file of a repository', file, 'a path like model.gguf or folder/model.gguf');
}

/**
 * The name under which the store keeps a file of the user's own. A whole model does not keep the
 * ending of a part: the store would look for the other parts. Throws `invalid_name`.
 */
export function storedNameOf(file: string, parts: number): string {
  const named = parts === 1 && partOf(file).total > 1 ? `${stemOf(file)}.gguf` : file;
  const stored = named.replaceAll(new RegExp(forbidden, 'gu'), '-').replaceAll(new RegExp(control, 'gu'), '-').trimStart();
  const fault = faultOf(stored);
  if (fault !== undefined) throw new RecuaError('invalid_name', `The store cannot keep a file named ${quote(file)}: ${fault}. Rename the file, then import it.`);
  return stored;
}

export function isRepoFile(file: string): boolean {
  return Buffer.byteLength(file) <= longestPathBytes && file.split('/').every((segment) => faultOf(segment) === undefined);
}

/** Returns the segments of a branch, tag or `refs/pr/1`. */
export function checkRevision(revision: string): string[] {
  return checkSegments('the revision', revision, 'a branch, a tag or a commit');
}

export function checkCommit(commit: string): string {
  if (!/^[0-9a-f]{40}$/.test(commit)) throw refuse('the commit', commit, 'it has another form', '40 hexadecimal digits');
  return commit;
}

/**
 * The hub's id for a file's contents: a sha256 or another hash. Without dots, so that it cannot
 * contain one of Recua's file extensions.
 */
export function checkEtag(etag: string): string {
  if (!/^[0-9A-Za-z][0-9A-Za-z_-]{0,127}$/.test(etag)) throw refuse('the etag', etag, 'it cannot name a blob', '1 to 128 letters and digits');
  return etag;
}

function checkSegments(what: string, given: string, expected: string): string[] {
  if (Buffer.byteLength(given) > longestPathBytes) throw refuse(what, given, `it is longer than ${longestPathBytes} bytes`, expected);
  const segments = given.split('/');
  for (const segment of segments) {
    const fault = faultOf(segment);
    if (fault !== undefined) throw refuse(what, given, fault, expected);
  }
  return segments;
}

/** Why a name cannot be a file or folder on every system; undefined if it can. */
function faultOf(segment: string): string | undefined {
  if (segment === '') return 'a part of it is empty, or it begins with "/"';
  if (segment === '.' || segment === '..') return `${quote(segment)} would lead elsewhere`;
  if (control.test(segment)) return 'it holds control characters';
  if (forbidden.test(segment)) return 'it holds one of \\ : * ? " < > |';
  if (/^ |[. ]$/.test(segment)) return 'a part of it begins or ends with a space, or ends with a dot';
  if (deviceNames.test(segment)) return `${quote(segment)} is the name of a device on Windows`;
  if (Buffer.byteLength(segment) > longestNameBytes) return `a part of it is longer than ${longestNameBytes} bytes`;
  return undefined;
}

function quote(given: string): string {
  return JSON.stringify(given.length > 80 ? `${given.slice(0, 80)}…` : given);
}
