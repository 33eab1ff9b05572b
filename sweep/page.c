/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - the report of a sweep: one HTML file that asks for nothing else. The data stand in it as JSON; the script draws
 * history, parallel coordinates and slices as SVG.
 */
#include "sweep/export.h"
#include "sweep/json.h"

#include <stdio.h>

static const char head[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>Manta sweep</title><style>"
    "body{font:14px system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222;background:#fff}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}svg{width:100%;display:block;background:#fafafa;border:1px solid #ddd}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #eee}"
    "th{text-align:left;color:#666}text{font:11px system-ui,sans-serif;fill:#444}.slices{display:grid;"
    "grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:1em}.note{color:#666}</style>"
    "<h1 id=\"title\"></h1><p id=\"facts\" class=\"note\"></p>"
    "<h2>History</h2><svg id=\"history\" viewBox=\"0 0 1000 300\"></svg>"
    "<h2>Parallel coordinates</h2><p class=\"note\">one line a trial; the better, the darker</p>"
    "<svg id=\"parallel\" viewBox=\"0 0 1000 340\"></svg>"
    "<h2>Slices</h2><div id=\"slices\" class=\"slices\"></div>"
    "<h2>Importance</h2><table id=\"importance\"></table>"
    "<h2>Best trials</h2><table id=\"best\"></table><script id=\"data\" type=\"application/json\">";

static const char script[] =
    "</script><script>\n"
    "'use strict';const D=JSON.parse(document.getElementById('data').textContent);\n"
    "const NS='http://www.w3.org/2000/svg',sign=D.mode==='max'?-1:1;\n"
    "const el=(p,n,a,t)=>{const e=document.createElementNS(NS,n);for(const k in a)e.setAttribute(k,a[k]);if(t!==undefined)"
    "e.textContent=t;p.appendChild(e);return e};\n"
    "const html=(p,n,t)=>{const e=document.createElement(n);if(t!==undefined)e.textContent=t;p.appendChild(e);return e};\n"
    "const fmt=v=>typeof v==='number'?(Number.isInteger(v)?String(v):v.toPrecision(4)):String(v);\n"
    "const done=D.trials.filter(t=>t.value!==null&&t.state!=='open'&&t.state!=='failed');\n"
    "const ranked=done.slice().sort((a,b)=>sign*(a.value-b.value));const rank=new Map(ranked.map((t,i)=>[t.trial,i]));\n"
    "const shade=t=>{const q=ranked.length<2?0:rank.get(t.trial)/(ranked.length-1);return `hsl(${210+20*q} ${80-50*q}% "
    "${30+52*q}%)`};\n"
    "document.getElementById('title').textContent=`Sweep ${D.name}: ${D.metric} (${D.mode})`;\n"
    "document.getElementById('facts').textContent=`${D.trials.length} trials drawn by ${D.sampler}, scheduler ${D.scheduler}; "
    "${D.completed} completed, ${D.stopped} stopped early, ${D.failed} failed; ${D.seconds.toFixed(1)} s; seed ${D.seed}`;\n"
    "const names=[...new Set(D.trials.flatMap(t=>Object.keys(t.params)))];\n"
    "function axis(name){const v=done.filter(t=>name in t.params).map(t=>t.params[name]);\n"
    " const numeric=v.length>0&&v.every(x=>typeof x==='number');\n"
    " if(!numeric){const c=[...new Set(v.map(String))].sort();return{at:x=>c.length<2?.5:c.indexOf(String(x))/(c.length-1),"
    "low:c[0],high:c[c.length-1],ticks:c}}\n"
    " let a=Math.min(...v),b=Math.max(...v);const log=a>0&&b/a>=100;const f=log?Math.log:x=>x;const fa=f(a),fb=f(b);\n"
    " return{at:x=>fb===fa?.5:(f(x)-fa)/(fb-fa),low:a,high:b,log,ticks:[a,b]}}\n"
    "function scale(){const v=ranked.map(t=>t.value).sort((a,b)=>a-b);if(!v.length)return{at:()=>.5,low:0,high:1};\n"
    " const q=p=>v[Math.min(v.length-1,Math.floor(p*v.length))];let a=v[0],b=v[v.length-1];\n"
    " if(sign>0)b=Math.max(q(.95),a);else a=Math.min(q(.05),b);if(a===b)b=a+1;\n"
    " return{at:x=>Math.max(0,Math.min(1,(x-a)/(b-a))),low:a,high:b}}\n"
    "const Y=scale();\n"
    "{const s=document.getElementById('history'),n=Math.max(1,D.trials.length-1);let best=null,path='';\n"
    " const x=t=>60+920*t.trial/n,y=v=>270-240*Y.at(v);\n"
    " el(s,'text',{x:4,y:34},fmt(Y.high));el(s,'text',{x:4,y:274},fmt(Y.low));el(s,'text',{x:470,y:294},'trial');\n"
    " for(const t of done.slice().sort((a,b)=>a.trial-b.trial)){const c=el(s,'circle',{cx:x(t),cy:y(t.value),r:3,fill:"
    "t.state==='stopped'?'#bbb':'#4a7fb5'});el(c,'title',{},`trial ${t.trial}: ${fmt(t.value)} (${t.state})`);\n"
    "  if(best===null||sign*(t.value-best)<0)best=t.value;path+=(path?'L':'M')+x(t)+' '+y(best)}\n"
    " if(path)el(s,'path',{d:path,fill:'none',stroke:'#c33','stroke-width':2})}\n"
    "{const s=document.getElementById('parallel'),cols=names.concat([null]),ax=names.map(axis);\n"
    " const X=i=>60+880*i/Math.max(1,cols.length-1),H=v=>300-260*v;\n"
    " for(const t of ranked.slice().reverse()){let d='';cols.forEach((c,i)=>{if(c!==null&&!(c in t.params))return;\n"
    "  const v=c===null?Y.at(t.value):ax[i].at(t.params[c]);d+=(d?'L':'M')+X(i)+' '+H(v)});\n"
    "  const p=el(s,'path',{d,fill:'none',stroke:shade(t),'stroke-width':rank.get(t.trial)===0?3:1});\n"
    "  el(p,'title',{},`trial ${t.trial}: ${fmt(t.value)} ${JSON.stringify(t.params)}`)}\n"
    " cols.forEach((c,i)=>{el(s,'line',{x1:X(i),x2:X(i),y1:40,y2:300,stroke:'#666'});\n"
    "  const a=c===null?Y:ax[i];el(s,'text',{x:X(i),y:332,'text-anchor':'middle','font-weight':'bold'},c===null?D.metric:c+(a.log?"
    "' (log)':''));el(s,'text',{x:X(i),y:32,'text-anchor':'middle'},fmt(a.high));\n"
    "  el(s,'text',{x:X(i),y:316,'text-anchor':'middle'},fmt(a.low))})}\n"
    "for(const name of names){const s=el(document.getElementById('slices'),'svg',{viewBox:'0 0 320 220'}),a=axis(name);\n"
    " for(const t of ranked.slice().reverse())if(name in t.params)el(s,'circle',{cx:45+260*a.at(t.params[name]),cy:180-160*"
    "Y.at(t.value),r:3,fill:shade(t)});\n"
    " el(s,'text',{x:175,y:214,'text-anchor':'middle','font-weight':'bold'},name+(a.log?' (log)':''));\n"
    " el(s,'text',{x:45,y:198},fmt(a.low));el(s,'text',{x:305,y:198,'text-anchor':'end'},fmt(a.high));\n"
    " el(s,'text',{x:2,y:24},fmt(Y.high));el(s,'text',{x:2,y:184},fmt(Y.low))}\n"
    "{const t=document.getElementById('importance');for(const w of D.importance){const r=html(t,'tr');html(r,'th',w[0]);"
    "html(r,'td',(100*w[1]).toFixed(1)+' %')}}\n"
    "{const t=document.getElementById('best'),h=html(t,'tr');for(const c of['trial',D.metric,'step','state'].concat(names))html(h,"
    "'th',c);\n"
    " for(const x of ranked.slice(0,20)){const r=html(t,'tr');for(const v of[x.trial,x.value,x.step,x.state])html(r,'td',fmt(v));\n"
    "  for(const n of names)html(r,'td',n in x.params?fmt(x.params[n]):'')}}\n"
    "</script></html>\n";

static mt_status member_put(mt_buf *out, const char *name, const char *text)
{
    MT_TRY(mt_buf_printf(out, "\"%s\":", name));
    MT_TRY(swp_json_put_text(out, text));
    return mt_buf_append(out, ",", 1);
}

static mt_status importance_put(const manta_sweep_view *view, mt_buf *out)
{
    manta_sweep_weight weights[MT_SWEEP_PARAMS_MAX];
    int                count = manta_sweep_importance(view, weights, MT_SWEEP_PARAMS_MAX);
    MT_TRY(mt_buf_printf(out, "\"importance\":["));
    for (int i = 0; i < count; i++) {
        MT_TRY(mt_buf_append(out, ",[", i ? 2 : 0));
        if (i == 0)
            MT_TRY(mt_buf_append(out, "[", 1));
        MT_TRY(swp_json_put_text(out, weights[i].name));
        MT_TRY(mt_buf_printf(out, ",%.6f]", weights[i].weight));
    }
    return mt_buf_append(out, "],", 2);
}

static mt_status data_put(const manta_sweep_view *view, mt_buf *out)
{
    MT_TRY(mt_buf_append(out, "{", 1));
    MT_TRY(member_put(out, "name", view->name));
    MT_TRY(member_put(out, "metric", view->metric));
    MT_TRY(member_put(out, "mode", view->mode));
    MT_TRY(member_put(out, "sampler", view->sampler));
    MT_TRY(member_put(out, "scheduler", view->scheduler));
    MT_TRY(member_put(out, "seed", view->seed));
    MT_TRY(mt_buf_printf(out, "\"completed\":%lld,\"stopped\":%lld,\"failed\":%lld,\"seconds\":%.3f,", (long long)view->completed,
                         (long long)view->stopped, (long long)view->failed, view->seconds));
    MT_TRY(importance_put(view, out));
    MT_TRY(mt_buf_printf(out, "\"trials\":"));
    MT_TRY(swp_export_trials(view, out));
    return mt_buf_append(out, "}", 1);
}

mt_status swp_export_page(const manta_sweep_view *view, FILE *to)
{
    mt_buf    data = {0};
    mt_status st = data_put(view, &data);
    if (st.code == 0) {
        fputs(head, to);
        for (size_t i = 0; i < data.size; i++) /* no text may end the element that the data stand in */
            if (data.data[i] == '<')
                fputs("\\u003c", to);
            else
                fputc(data.data[i], to);
        fputs(script, to);
    }
    mt_buf_fini(&data);
    return st;
}
