// A local npm registry for test-packages.mjs. It serves the archives of npm/dist under their names
// and metadata for the packages of other platforms, and forwards everything else to npm's
// configured registry.
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import { packageName, platformPackage, table } from './package-texts.mjs';
import { place } from './place.mjs';
import { capture, Failure, npmRegistry } from './process.mjs';

function readArchive(file) {
  const path = join(place.packed, file);
  const text = capture('tar', ['-xzOf', path, 'package/package.json']);
  if (text === undefined) throw new Failure(`${path} is no package. Run \`npm run pack\`.`);
  const bytes = readFileSync(path);
  const hash = (algorithm, encoding) => createHash(algorithm).update(bytes).digest(encoding);
  return { manifest: JSON.parse(text), file, dist: { integrity: `sha512-${hash('sha512', 'base64')}`, shasum: hash('sha1', 'hex') } };
}

/** The packages of npm/dist by name. */
function archives() {
  let names;
  try {
    names = readdirSync(place.packed).filter((file) => file.endsWith('.tgz'));
  } catch {
    throw new Failure('There is no npm/dist. Run `npm run pack`.');
  }
  return new Map(names.map(readArchive).map((one) => [one.manifest.name, one]));
}

/**
 * @returns {Promise<{ url: string, names: string[], close: () => void }>} `names`: the packages
 *   that can actually be installed
 */
export async function startRegistry() {
  const packed = archives();
  const upstream = npmRegistry();
  const described = new Map(Object.values(table).map((target) => [packageName(target.name), platformPackage(target)]));
  const url = () => `http://127.0.0.1:${server.address().port}/`;
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname).slice(1);
    const send = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (path.startsWith('-archive/')) {
      const one = [...packed.values()].find(({ file }) => path === `-archive/${file}`);
      return one ? createReadStream(join(place.packed, one.file)).pipe(response) : send(404, { error: 'not found' });
    }
    const one = packed.get(path);
    const manifest = one?.manifest ?? described.get(path);
    if (!manifest) return response.writeHead(307, { location: `${upstream}${path.replace('/', '%2f')}` }).end();
    const dist = { ...(one?.dist ?? { shasum: '0'.repeat(40) }), tarball: `${url()}-archive/${one?.file ?? 'not-made-here.tgz'}` };
    return send(200, { name: path, 'dist-tags': { latest: manifest.version }, versions: { [manifest.version]: { ...manifest, dist } } });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: url(), names: [...packed.keys()], close: () => { server.closeAllConnections(); server.close(); } };
}
