import importlib.util, sys, traceback, os, time
spec=importlib.util.spec_from_file_location("tf","/work/wt/readers/tests/fuzz/test_files.py"); tf=importlib.util.module_from_spec(spec); spec.loader.exec_module(tf)
from hypothesis import given, settings, HealthCheck, Phase
little_memory, folder = tf.little_memory, tf.folder
N=int(os.environ.get("CASES","500")); LOG=open("/tmp/collect2.log","a"); seen={}
from mutants import *
@settings(max_examples=N, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(rng=tf.draws)
def test_collect(folder,rng):
    k=rng.randrange(10); t=time.time()
    try:
        if k<4: s=[".npy",".npz",".csv",".h5"][k]; what=s; tf.examples(folder,damaged(rng,FILES[s]),s)
        elif k==4: what="header"; tf.examples(folder,odd_header(rng),".npy")
        elif k==5: what="npz"; tf.dataset(folder,damaged(rng,FILES[".npz"]))
        elif k==6 or k==7: what="odd"; d=odd_archive(rng); tf.dataset(folder,d); tf.examples(folder,d,".npz")
        elif k==8: what="run"; tf.run_file(folder,damaged(rng,FILES[".h5"]))
        else: what=rng.choice(tf.PUBLISHED); tf.published(folder,*what,damaged(rng,[FOLDERS[what[0]][what[1]]]))
    except BaseException as e:
        if type(e).__module__.startswith("hypothesis"): raise
        tb=traceback.extract_tb(e.__traceback__); last=[f for f in tb if "/work/wt" in f.filename][-1]
        key=(type(e).__name__,last.filename[-40:],last.lineno,str(what))
        seen[key]=seen.get(key,0)+1
        if seen[key]<=2: LOG.write(f"{key}\n   {str(e)[:600]}\n"); LOG.flush()
    if time.time()-t>2: LOG.write(f"SLOW {time.time()-t:.1f} {what}\n"); LOG.flush()
def test_report():
    for k,v in seen.items(): LOG.write(f"{v} {k}\n")
