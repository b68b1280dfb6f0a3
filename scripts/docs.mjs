// `npm run docs`: writes docs/cli.md and the man page from the built command line's command table,
// the keys of a models file in docs/configuration.md from the settings, docs/api.md from
// docstrings, docs/http.md from the server's routes, and the charts of docs/performance.md from its
// tables.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { apiReference } from './api-docs.mjs';
import { writeCharts } from './charts.mjs';
import { place, root } from './place.mjs';

const built = (file) => import(pathToFileURL(join(place.dist, file)).href);
const [{ manPage, markdown, withModelKeys }, { allCommands }] = await Promise.all(['cli/reference.js', 'cli/table.js'].map(built));
const [{ describeApi }, { markdown: httpPage }] = await Promise.all(['server/app.js', 'server/reference/markdown.js'].map(built));
const all = await allCommands();
const configuration = readFileSync(join(root, 'docs', 'configuration.md'), 'utf8');
for (const [file, text] of [['cli.md', markdown(all)], ['recua.1', manPage(all)], ['configuration.md', withModelKeys(configuration)], ['api.md', await apiReference()], ['http.md', httpPage(describeApi().document)]]) {
  writeFileSync(join(root, 'docs', file), text);
  console.log(join('docs', file));
}
writeCharts();
