import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../backend/webui",
    emptyOutDir: true,
    // Inlined files would be `data:` addresses, which the server's content policy refuses.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1300,
  },
  server: {
    proxy: { "/api": process.env["SHARDWRIGHT_API"] ?? "http://127.0.0.1:8000" },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}", "tests/**/*.test.ts"] },
});
