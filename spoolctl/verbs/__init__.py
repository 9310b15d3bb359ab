"""One module a verb: SPEC, data(), run(args, ctx), text(data, view)."""
