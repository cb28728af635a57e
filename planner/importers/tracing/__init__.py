"""Trace an `nn.Module` into a `Program`; the only importer modules that load torch."""
