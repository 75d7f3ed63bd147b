/** The default theme with the fonts of the reader's system: the pages load nothing from other hosts. */
import "./home.css";

export { default } from "vitepress/theme-without-fonts";
