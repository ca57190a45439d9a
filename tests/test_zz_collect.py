import importlib.util, sys, traceback, os
spec=importlib.util.spec_from_file_location("tc","/work/wt/readers/tests/fuzz/test_commands.py"); tc=importlib.util.module_from_spec(spec); spec.loader.exec_module(tc)
from hypothesis import given, settings, HealthCheck, strategies as st
stubs, place = tc.stubs, tc.place
N=int(os.environ.get("CASES","500"))
LOG=open("/tmp/collect.log","a")
seen={}
import time
@settings(max_examples=N, derandomize=False, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[__import__("hypothesis").Phase.generate])
@given(rng=tc.draws)
def test_collect(place,rng):
    args=tc.a_call(rng,place); t=time.time()
    try: tc.judge(place,args); r="ok"
    except BaseException as e:
        if type(e).__module__.startswith("hypothesis"): raise
        tb=traceback.extract_tb(e.__traceback__)
        last=[f for f in tb if "/work/wt" in f.filename][-1]
        key=(type(e).__name__,last.filename[-40:],last.lineno, args[0] if last.filename.endswith("test_commands.py") else "")
        seen[key]=seen.get(key,0)+1
        if seen[key]<=2:
            LOG.write(f"{key}\n   {[a[:120] for a in args]}\n   {str(e)[:600]}\n"); LOG.flush()
    t=time.time()-t
    if t>1.5: LOG.write(f"SLOW {t:.1f} {[a[:100] for a in args]}\n"); LOG.flush()
def test_report():
    for k,v in seen.items(): LOG.write(f"{v} {k}\n")
