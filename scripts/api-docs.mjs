// Generates docs/api.md, the library's reference, from the docstrings of src/index.ts's exports.
// Run by `npm run docs`; a test compares the result.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Application, ReflectionKind } from 'typedoc';
import { place, root } from './place.mjs';

const intro = `# The library: reference

The reference of \`import … from 'recua'\` and \`require('recua')\`. [library.md](library.md) is the introduction, [examples](../examples) has programs that run,
[errors.md](errors.md) lists every error code. Durations are in milliseconds, sizes in bytes, lengths in tokens. \`npm run docs\` writes this page from the sources.
`;

/** Returns the page's text. */
export async function apiReference() {
  const out = mkdtempSync(join(tmpdir(), 'recua-docs-'));
  try {
    const app = await Application.bootstrapWithPlugins({
      out,
      entryPoints: [join(place.source, 'index.ts')],
      tsconfig: join(root, 'tsconfig.json'),
      plugin: ['typedoc-plugin-markdown'],
      logLevel: 'Error',
      // tsc checks the same files.
      skipErrorChecking: true,
      readme: 'none',
      excludeInternal: true,
      excludePrivate: true,
      excludeExternals: true,
      disableSources: true,
      disableGit: true,
      sourceLinkTemplate: '',
      sort: ['source-order'],
      groupOrder: ['Functions', 'Classes', 'Interfaces', '*'],
      outputFileStrategy: 'modules',
      entryFileName: 'api.md',
      hidePageHeader: true,
      hidePageTitle: true,
      hideBreadcrumbs: true,
      useCodeBlocks: false,
      expandObjects: true,
      parametersFormat: 'table',
      interfacePropertiesFormat: 'table',
      typeAliasPropertiesFormat: 'table',
      typeDeclarationFormat: 'table',
      tableColumnSettings: { hideInherited: true, hideOverrides: true, hideSources: true },
    });
    const project = await app.convert();
    if (!project) throw new Error('The docstrings could not be read.');
    settingsFirst(project);
    await app.generateOutputs(project);
    return intro + tidy(readFileSync(join(out, 'api.md'), 'utf8'));
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Sorts options from the settings tables before those that an interface adds, which are rarer. */
function settingsFirst(project) {
  const isSetting = (one) => project.getSymbolIdFromReflection(one)?.fileName.startsWith(join(place.source, 'settings'));
  for (const { groups } of project.getReflectionsByKind(ReflectionKind.Interface)) {
    for (const group of groups ?? []) group.children.sort((a, b) => Number(isSetting(b)) - Number(isSetting(a)));
  }
}

/**
 * Fixes what the generator has no option for: replaces the list of all codes by their type's name,
 * and drops headings without content.
 */
function tidy(markdown) {
  return markdown
    .replace(/^[\s\S]*?(?=^## )/m, '\n')
    .replace(/(?:(?: *\\\| )?`"[a-z_]+"`\n?){20,}/g, '[`ErrorCode`](errors.md)\n')
    .replace(/<a id="[^"]*"><\/a> /g, '')
    .replace(/^#+ (?:Inherited from|Overrides|Implementation of)\n\n.*\n\n/gm, '')
    .replace(/^#+ Extends\n\n(?:- .*\n)+\n/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trimEnd() + '\n';
}
