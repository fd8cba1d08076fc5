def _figures(out):
    import os, sys
    plot = sys.modules.get("matplotlib.pyplot")
    if plot is None:
        return
    if any(n.lower().endswith((".png", ".svg", ".jpg", ".pdf")) for n in os.listdir(out)):
        return  # the script saved its own
    for n in plot.get_fignums():
        plot.figure(n).savefig("%s/figure-%d.png" % (out, n))


def _run(name, script, out):
    import sys, types
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = name, __builtins__
    sys.modules["__main__"], sys.argv = main, [name]
    try:
        exec(compile(script, name, "exec"), main.__dict__)
        _figures(out)
    except SystemExit:
        raise
    except BaseException as e:
        import traceback
        tb = e.__traceback__
        traceback.print_exception(type(e), e, tb.tb_next if tb else None)
        sys.exit(1)
