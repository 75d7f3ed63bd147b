/** `tollgate completion`: a script that completes commands and options in bash and zsh. */
import type { Command } from "./command.js";
import { expectWords, readArguments, readChoice } from "./command.js";

const SHELLS = ["bash", "zsh"] as const;

const help = `Usage: tollgate completion bash | zsh

Prints a script that completes commands and options of tollgate, and file names elsewhere.

Examples:
  tollgate completion bash > /etc/bash_completion.d/tollgate
  tollgate completion zsh >> ~/.zshrc
`;

interface Listed {
  name: string;
  load(): Promise<{ command: Command }>;
}

export const completionOf = (commands: readonly Listed[]): Command => ({
  help,
  async run(args) {
    const { words } = readArguments(args, {});
    const name = expectWords(words, ["bash or zsh"]).required("bash or zsh");
    const shell = readChoice("the shell", name, SHELLS);
    const cases = await Promise.all(
      commands.map(async ({ name, load }) => `    ${name}) words="${optionsIn((await load()).command.help)}" ;;`),
    );
    const names = [...commands.map(({ name }) => name), "help", "--help", "--version"].join(" ");
    return script(shell, names, cases);
  },
});

/** The options that a help text describes. */
function optionsIn(text: string): string {
  const found = [...text.matchAll(/(?<=[\s[(])--[a-z][a-z-]*/g)].map(([option]) => option);
  return [...new Set([...found, "--help"])].sort().join(" ");
}

/** zsh runs completion functions of bash after bashcompinit. */
function script(shell: (typeof SHELLS)[number], names: string, cases: string[]): string {
  const zsh = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n";
  return `# Completes tollgate in ${shell}.
${shell === "zsh" ? zsh : ""}_tollgate() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "\${COMP_WORDS[1]}" = help ]; }; then
    COMPREPLY=($(compgen -W "${names}" -- "$current"))
    return
  fi
  case "$current" in -*) ;; *) COMPREPLY=($(compgen -f -- "$current")); return ;; esac
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _tollgate tollgate
`;
}
