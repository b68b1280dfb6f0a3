// The bash script: one function, whose cases are generated from the table. Works with bash 3.2,
// without bash-completion.
import type { CompletedCommand, Value } from './words.js';

export function bashScript(tree: readonly CompletedCommand[]): string {
  return `# bash completion for recua; load it with: source <(recua completion bash)
# The models (--models $1) or saved chats (--sessions $1) of the moment; silent if recua is missing.
# bash treats the text after the last colon as a word of its own, so only that text is inserted.
_recua_names() {
  local name colon=
  [[ $COMP_WORDBREAKS == *:* && $2 == *:* ]] && colon=\${2%:*}:
  while IFS= read -r name; do
    # Others would have to be quoted, or the shell would execute what they hold.
    [[ -n $name && $name == "$2"* && $name != *[^[:alnum:]\\ ._:/@+,=%-]* ]] || continue
    name=\${name#"$colon"}
    [[ $1 == --models && -z $colon ]] || name=\${name// /\\\\ }
    COMPREPLY+=( "$name" )
  done < <(recua completion "$1" 2>/dev/null)
}
_recua() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev= path= word next value= i last=$COMP_CWORD
  local -a words
  COMPREPLY=()
  # "owner/repo:Q4" comes as three words if COMP_WORDBREAKS contains ":".
  local model=$cur
  if (( last >= 2 )) && [[ $cur == : ]]; then cur= model=\${COMP_WORDS[last-1]}: last=$(( last - 1 ))
  elif (( last >= 3 )) && [[ \${COMP_WORDS[last-1]} == : ]]; then model=\${COMP_WORDS[last-2]}:$cur last=$(( last - 2 ))
  fi
  # "--flag=value" likewise.
  if [[ $cur == = ]]; then cur= model= prev=\${COMP_WORDS[last-1]}
  elif (( last >= 2 )) && [[ \${COMP_WORDS[last-1]} == = ]]; then prev=\${COMP_WORDS[last-2]}
  elif (( last >= 1 )); then prev=\${COMP_WORDS[last-1]}
  fi
  for (( i = 1; i < COMP_CWORD; i++ )); do
    word=\${COMP_WORDS[i]} next="\${path:+$path }\${COMP_WORDS[i]}"
    case $next in
${tree.filter(({ path }) => path !== '').map(({ path }) => `      ${quoted(path)}) path=$next ;;\n`).join('')}      *) [[ $word == -* ]] || break ;;
    esac
  done
  case "$path:$prev" in
${tree.flatMap(({ path, flags }) => flags.filter(({ value }) => value.kind !== 'none').map(({ names, value }) => `    ${names.map((name) => quoted(`${path}:${name}`)).join('|')}) ${complete(value)}; return ;;\n`)).join('')}  esac
  if [[ $cur == -* ]]; then
    case $path in
${tree.filter(({ flags }) => flags.length > 0).map(({ path, flags }) => `      ${quoted(path)}) value=${quoted(flags.flatMap(({ names }) => names).join(' '))} ;;\n`).join('')}    esac
    COMPREPLY=( $(compgen -W "$value" -- "$cur") )
    return
  fi
  case $path in
${tree.map(({ path, inner, operand }) => `    ${quoted(path)}) ${inner.length > 0 ? words(inner.map(({ name }) => name)) : complete(operand)} ;;\n`).join('')}  esac
}
complete -F _recua recua
`;
}

function complete(value: Value): string {
  switch (value.kind) {
    case 'words': return words(value.words);
    case 'file': return filesOf('-f');
    // Text after a colon is not a file.
    case 'model': return `if [[ $model == "$cur" ]]; then ${filesOf('-f -X "!*.gguf"', '-d')}; fi; _recua_names --models "$model"`;
    case 'session': return '_recua_names --sessions "$cur"';
    case 'none':
    case 'other': return ':';
  }
}

function words(all: readonly string[]): string {
  return `COMPREPLY=( $(compgen -W ${quoted(all.join(' '))} -- "$cur") )`;
}

/** Names with spaces stay one word, and are quoted when inserted. */
function filesOf(...kinds: readonly string[]): string {
  return `compopt -o filenames 2>/dev/null; while IFS= read -r word; do COMPREPLY+=( "$word" ); done < <(${kinds.map((kind) => `compgen ${kind} -- "$cur"`).join('; ')})`;
}

function quoted(text: string): string {
  return `'${text.replaceAll('\'', '\'\\\'\'')}'`;
}
