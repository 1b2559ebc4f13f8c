import { defineConfig } from "vite";

// The server reads the page from here, in a checkout and in a wheel (src/noetl/server/page_files.py).
const outDir = "../src/noetl/page";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir,
    emptyOutDir: true,
    manifest: "manifest.json",
    assetsDir: "assets",
    assetsInlineLimit: 0, // the content security policy allows no font from a data URL
    modulePreload: { polyfill: false },
    target: ["chrome128", "firefox130", "safari18"],
    reportCompressedSize: false,
    license: { fileName: "licenses.md" }, // tools/page.py adds those of fonts
  },
});
