/** Generates docs/reference/cli.md from the help of all commands, docs/reference/library.md from the types, and the options of the library from the schema: `npx tsx build/reference-pages.ts`. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import { exitCodes } from "../src/cli/command.js";
import { commandGroups } from "../src/cli/command-list.js";
import { entries, LIBRARY } from "./library/manifest.js";
import { OPTION_SCHEMA, optionSchemaModule } from "./library/options.js";
import { fromRoot } from "./paths.js";

export async function cliPage(): Promise<string> {
  const sections: string[] = [];
  for (const { title, commands } of commandGroups) {
    sections.push(`## ${title}\n`);
    for (const { name, summary, load } of commands) {
      const { command } = await load();
      sections.push(`### tollgate ${name}\n\n${summary}.\n\n\`\`\`text\n${command.help.trim()}\n\`\`\`\n`);
    }
  }
  const codes = exitCodes.map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return `# Command line

Generated from the help of the commands by \`npx tsx build/reference-pages.ts\`; \`make check\` compares them. [OPERATIONS](../OPERATIONS.md) shows them at work.

## Exit codes

| code | meaning |
| --- | --- |
${codes.join("\n")}

${sections.join("\n")}`;
}

/** The exported names with their declarations. A change of a type changes the page, and the test of it fails. */
export function libraryPage(): string {
  const paths = Object.entries(entries).map(([name, module]) => [name, fromRoot(`src/${module}.ts`)] as const);
  const { config } = ts.readConfigFile(fromRoot("tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(
    { ...config, include: [], files: paths.map(([, path]) => path) },
    ts.sys,
    fromRoot(""),
  );
  delete options.tsBuildInfoFile;
  const program = ts.createProgram(
    paths.map(([, path]) => path),
    { ...options, incremental: false },
  );
  const checker = program.getTypeChecker();
  const sectionsOf = (path: string): Section[] =>
    checker
      .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!)
      .map((symbol) => section(symbol.name, followed(symbol, checker), checker))
      .sort((a, b) => a.name.localeCompare(b.name));
  const chapter = (title: string, sections: Section[]) =>
    `## ${title}\n\n${sections.map(({ name, text }) => `### ${name}\n\n${text}\n`).join("\n")}`;
  const parts = paths.flatMap(([entry, path]) => {
    const sections = sectionsOf(path);
    const values = sections.filter(({ kind }) => kind === "functions and values");
    if (entry !== "index") return [chapter(`${LIBRARY}/${entry}`, values)];
    return [
      chapter("Functions and values", values),
      chapter(
        "Types",
        sections.filter(({ kind }) => kind === "types"),
      ),
    ];
  });
  return `# Library API

Everything that \`import … from "${LIBRARY}"\` offers, and \`import … from "tollgate"\` as well. Generated from the types by
\`npx tsx build/reference-pages.ts\`; \`make check\` compares them, so no declaration changes unnoticed. [The guide](../guides/library.md) shows
how to use it.

${parts.join("\n")}`;
}

function followed(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

interface Section {
  name: string;
  kind: "functions and values" | "types";
  text: string;
}

const FORMAT = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;

function section(name: string, symbol: ts.Symbol, checker: ts.TypeChecker): Section {
  const declaration = symbol.declarations![0]!;
  const comment = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  const isType = ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration);
  const code = declarationOf(name, declaration, checker);
  const text = `${comment === "" ? "" : `${comment.replaceAll("\n", " ")}\n\n`}\`\`\`ts\n${code}\n\`\`\``;
  return { name, kind: isType ? "types" : "functions and values", text };
}

function declarationOf(name: string, declaration: ts.Declaration, checker: ts.TypeChecker): string {
  if (ts.isInterfaceDeclaration(declaration)) {
    const heritage = (declaration.heritageClauses ?? []).map((clause) => ` ${clause.getText()}`).join("");
    const members = declaration.members.map((member) => dedented(member.getFullText().replace(/^\n+/, "")));
    return `interface ${name}${typeParametersOf(declaration)}${heritage} {\n${indented(members.join("\n"))}\n}`;
  }
  const type = checker.getTypeAtLocation(declaration);
  if (ts.isTypeAliasDeclaration(declaration)) {
    // A type that is inferred from a function is listed member by member.
    if (/ReturnType</.test(declaration.type.getText()))
      return `type ${name} = {\n${indented(membersOf(type, declaration, checker))}\n}`;
    return `type ${name}${typeParametersOf(declaration)} = ${declaration.type.getText()}`;
  }
  if (ts.isFunctionDeclaration(declaration)) {
    const signature = checker.getSignatureFromDeclaration(declaration)!;
    return `function ${name}${checker.signatureToString(signature, declaration, FORMAT)}`;
  }
  if (ts.isClassDeclaration(declaration)) {
    const heritage = (declaration.heritageClauses ?? []).map((clause) => ` ${clause.getText()}`).join("");
    const members = declaration.members.map((member) =>
      ts.isConstructorDeclaration(member)
        ? `constructor(${member.parameters.map((each) => each.getText()).join(", ")})`
        : member.getText(),
    );
    return `class ${name}${heritage} {\n${indented(members.join("\n"))}\n}`;
  }
  return `const ${name}: ${checker.typeToString(type, declaration, FORMAT)}`;
}

function typeParametersOf({ typeParameters = [] }: { typeParameters?: Iterable<ts.Node> }): string {
  const names = [...typeParameters].map((each) => each.getText());
  return names.length === 0 ? "" : `<${names.join(", ")}>`;
}

function membersOf(type: ts.Type, at: ts.Node, checker: ts.TypeChecker): string {
  return type
    .getProperties()
    .map((property) => {
      const comment = ts.displayPartsToString(property.getDocumentationComment(checker)).replaceAll("\n", " ");
      const text = checker.typeToString(checker.getTypeOfSymbolAtLocation(property, at), at, FORMAT);
      return `${comment === "" ? "" : `/** ${comment} */\n`}${property.name}: ${text};`;
    })
    .join("\n");
}

const indented = (text: string) => text.replace(/^(?=.)/gm, "  ");

function dedented(text: string): string {
  const spaces = Math.min(
    ...text
      .split("\n")
      .filter((line) => line.trim() !== "")
      .map((line) => line.search(/\S/)),
  );
  return text
    .split("\n")
    .map((line) => line.slice(spaces))
    .join("\n");
}

async function main(check: boolean): Promise<number> {
  const pages = {
    "docs/reference/cli.md": await cliPage(),
    "docs/reference/library.md": libraryPage(),
    [OPTION_SCHEMA]: optionSchemaModule(),
  };
  mkdirSync(fromRoot("docs/reference"), { recursive: true });
  const outdated = Object.entries(pages).filter(
    ([path, text]) => !existsSync(fromRoot(path)) || readFileSync(fromRoot(path), "utf8") !== text,
  );
  for (const [path, text] of outdated) {
    if (check)
      console.error(
        `${path} is not up to date. If the change is intended: npx tsx build/reference-pages.ts, and a line in CHANGELOG.md`,
      );
    else writeFileSync(fromRoot(path), text);
  }
  return check && outdated.length > 0 ? 1 : 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = await main(process.argv[2] === "--check");
}
