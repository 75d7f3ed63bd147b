/** `tollgate schema`: the JSON Schema of the configuration file, for editors and checkers. */
import { jsonSchema } from "../config/json-schema.js";
import { type Command, readOptions } from "./command.js";

const help = `Usage: tollgate schema

Prints the JSON Schema (draft 2020-12) of the configuration file: every option with its bounds, default and meaning.
An editor with a YAML language server completes and checks by it when the file begins with:

  # yaml-language-server: $schema=tollgate.schema.json

Example:
  tollgate schema > tollgate.schema.json
`;

export const schemaCommand: Command = {
  name: "schema",
  summary: "The JSON Schema of the configuration file, for editors",
  help,
  run(args) {
    readOptions(args, { json: { type: "boolean", default: false } });
    return `${JSON.stringify(jsonSchema(), undefined, 2)}\n`;
  },
};
