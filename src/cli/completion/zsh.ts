// The zsh script: an _arguments call for each command path, generated from the table.
import type { CompletedCommand, CompletedFlag, Value } from './words.js';

export function zshScript(tree: readonly CompletedCommand[]): string {
  return `#compdef recua
# zsh completion for recua; load it after compinit with: source <(recua completion zsh)
# A separate function, because a colon would end an action.
__recua_model() {
  local -a models
  # The models of the moment; silent if recua is missing.
  models=(\${(f)"$(recua completion --models 2>/dev/null)"})
  _alternative 'files:file:_files -g "*.gguf"' 'models:model:compadd -a models'
}
__recua_session() {
  local -a sessions
  sessions=(\${(f)"$(recua completion --sessions 2>/dev/null)"})
  compadd -a sessions
}

${tree.map(functionOf).join('\n')}
if [ "$funcstack[1]" = "_recua" ]; then
  _recua "$@"
else
  compdef _recua recua
fi
`;
}

function nameOf(path: string): string {
  return `_recua${path === '' ? '' : `_${path.replaceAll(/[^a-z0-9]+/g, '_')}`}`;
}

function functionOf({ path, inner, flags, operand }: CompletedCommand, _at: number, tree: readonly CompletedCommand[]): string {
  const lines = flags.flatMap(flagSpecs);
  if (inner.length === 0) {
    return `${nameOf(path)}() {\n  _arguments -S ${[...lines, quoted(`*:${operand.kind === 'none' ? 'nothing' : 'argument'}:${action(operand)}`)].join(' \\\n    ')}\n}\n`;
  }
  const cases = inner.flatMap(({ name }) => {
    const found = tree.find((one) => one.path === `${path === '' ? '' : `${path} `}${name}`);
    return found ? [`      ${name}) ${nameOf(found.path)} ;;\n`] : [];
  });
  return `${nameOf(path)}() {
  local state line
  local -a commands
  commands=(
${inner.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}\n`).join('')}  )
  _arguments -C ${[...lines, '\'1:command:->command\'', '\'*::argument:->argument\''].join(' \\\n    ')}
  case $state in
    command) _describe command commands ;;
    argument) case $line[1] in
${cases.join('')}    esac ;;
  esac
}
`;
}

/** One spec per name; each excludes the others. */
function flagSpecs({ names, help, value }: CompletedFlag): string[] {
  const others = names.length > 1 ? `(${names.join(' ')})` : '';
  const text = help.replaceAll(/[[\]:\\]/g, '\\$&');
  return names.map((name) => quoted(`${others}${name}${value.kind === 'none' ? '' : name.startsWith('--') ? '=' : ''}[${text}]${value.kind === 'none' ? '' : `:value:${action(value)}`}`));
}

function action(value: Value): string {
  switch (value.kind) {
    case 'words': return `(${value.words.join(' ')})`;
    case 'file': return '_files';
    case 'model': return '__recua_model';
    case 'session': return '__recua_session';
    case 'none':
    case 'other': return ' ';
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll('\'', '\'\\\'\'')}'`;
}
