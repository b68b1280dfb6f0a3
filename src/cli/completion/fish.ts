// The fish script, generated from the table: a `complete` line for each command, flag and operand.
import type { CompletedCommand, Value } from './words.js';

export function fishScript(tree: readonly CompletedCommand[]): string {
  const lines = tree.flatMap(({ path, inner, flags, operand }) => [
    ...inner.map(({ name, summary }) => `complete -c recua -f -n ${quoted(`__recua_is ${path}`.trim())} -a ${quoted(name)} -d ${quoted(summary)}`),
    ...flags.map(({ names, help, value }) => `complete -c recua -n ${here(path)} ${names.map(option).join(' ')}${action(value)} -d ${quoted(help)}`),
    ...(inner.length > 0 ? [] : [`complete -c recua -n ${here(path)} ${operandAction(operand)}`]),
  ]);
  return `# fish completion for recua; load it with: recua completion fish | source
# Whether the words so far, without flags, are exactly this command path.
function __recua_is
    set -l words (commandline -opc | string match -v -- '-*')
    test "$words[2..-1]" = "$argv"
end
# Whether the words begin with it.
function __recua_at
    set -l words (commandline -opc | string match -v -- '-*')
    set -l rest $words[2..-1]
    set -l count (count $argv)
    test (count $rest) -ge $count; and test "$rest[1..$count]" = "$argv"
end
# The models of the moment; silent if recua is missing.
function __recua_models
    recua completion --models 2>/dev/null
end
# The saved chats.
function __recua_sessions
    recua completion --sessions 2>/dev/null
end
# Folders and GGUF files.
function __recua_gguf
    complete -C"'' "(commandline -ct | string replace -r '^--[^=]*=' '') | string match -r '.*(?:/|\\.gguf)$'
end
${lines.join('\n')}
`;
}

function here(path: string): string {
  return quoted(`__recua_at ${path}`.trim());
}

/** fish calls \`-ngl\` an old option: one dash, several letters. */
function option(name: string): string {
  if (name.startsWith('--')) return `-l ${name.slice(2)}`;
  return name.length > 2 ? `-o ${name.slice(1)}` : `-s ${name.slice(1)}`;
}

function action(value: Value): string {
  switch (value.kind) {
    case 'none': return '';
    case 'words': return ` -x -a ${quoted(value.words.join(' '))}`;
    case 'file': return ' -r -F';
    case 'model': return ' -x -a \'(__recua_models; __recua_gguf)\'';
    case 'session': return ' -x -a \'(__recua_sessions)\'';
    case 'other': return ' -x';
  }
}

function operandAction(value: Value): string {
  switch (value.kind) {
    case 'none':
    case 'other': return '-f';
    case 'words': return `-f -a ${quoted(value.words.join(' '))}`;
    case 'file': return '-F';
    case 'session': return '-f -a \'(__recua_sessions)\'';
    case 'model': return '-f -a \'(__recua_models; __recua_gguf)\'';
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll('\'', '\\\'')}'`;
}
