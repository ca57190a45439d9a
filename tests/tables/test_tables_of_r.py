"""The heads of twenty tables that R has, as it writes them: what becomes of their columns."""

import re

import pytest

from hopfed import read_table
from hopfed.errors import DataError
from hopfed.kernels import unpack

CUT = {"binarize": "median"}
# What wrote it and how, the text, what is told, the columns due, and the first and last rows' name.
TABLES = {
    "mtcars, write.csv": (
        '"","mpg","cyl","vs","am"\n"Mazda RX4",21,6,0,1\n"Datsun 710",22.8,4,1,1\n'
        '"Hornet 4 Drive",21.4,6,1,0\n"Duster 360",14.3,8,0,0\n',
        *(CUT, ("mpg", "cyl", "vs", "am"), ("Mazda RX4", "Duster 360")),
    ),
    "mtcars, write.table": (
        '"mpg" "vs" "am"\n"Mazda RX4" 21 0 1\n"Datsun 710" 22.8 1 1\n"Duster 360" 14.3 0 0\n',
        *(CUT, ("mpg", "vs", "am"), ("Mazda RX4", "Duster 360")),
    ),
    "mtcars, write.csv2": (
        '"";"mpg";"vs";"am"\n"Mazda RX4";21;0;1\n"Datsun 710";22,8;1;1\n"Duster 360";14,3;0;0\n',
        *(CUT, ("mpg", "vs", "am"), ("Mazda RX4", "Duster 360")),
    ),
    "iris, write.csv": (
        '"","Sepal.Length","Species"\n"1",5.1,"setosa"\n"2",7,"versicolor"\n"3",6.3,"virginica"\n',
        CUT,
        ("Sepal.Length", "Species=setosa", "Species=versicolor", "Species=virginica"),
        ("1", "3"),
    ),
    "iris, without names of rows": (
        '"Sepal.Length","Species"\n5.1,"setosa"\n7,"versicolor"\n6.3,"setosa"\n',
        *(CUT, ("Sepal.Length", "Species=versicolor"), None),
    ),
    "airquality, gaps": (
        '"","Ozone","Month"\n"1",41,5\n"2",NA,5\n"3",12,6\n"4",18,6\n',
        *(CUT, ("Ozone", "Month"), ("1", "4")),
    ),
    "airquality, write.table with tabs": (
        '"Ozone"\t"Month"\n"1"\t41\t5\n"2"\tNA\t5\n"3"\t12\t6\n"4"\t18\t7\n',
        *(CUT, ("Ozone", "Month"), ("1", "4")),
    ),
    "infert": (
        '"","education","age","case"\n"1","0-5yrs",26,1\n"2","6-11yrs",42,1\n"3","12+ yrs",39,0\n',
        CUT,
        ("education=0-5yrs", "education=12+ yrs", "education=6-11yrs", "age", "case"),
        ("1", "3"),
    ),
    "warpbreaks": (
        '"","breaks","wool","tension"\n"1",26,"A","L"\n"2",30,"B","M"\n"3",54,"A","H"\n',
        *(CUT, ("breaks", "wool=B", "tension=H", "tension=L", "tension=M"), ("1", "3")),
    ),
    "Titanic, as a frame": (
        '"","Class","Sex","Survived","Freq"\n"1","1st","Male","No",0\n"2","2nd","Female","Yes",7\n',
        {"ignore": ["Freq"], "id": "column 1"},
        ("Class=2nd", "Sex=Male", "Survived"),
        ("1", "2"),
    ),
    "esoph, ordered factors": (
        '"","agegp","alcgp","ncases"\n"1","25-34","0-39g/day",0\n"2","35-44","40-79",1\n'
        '"3","25-34","0-39g/day",0\n',
        *({}, ("agegp=35-44", "alcgp=40-79", "ncases"), ("1", "3")),
    ),
    "ToothGrowth": (
        '"","len","supp","dose"\n"1",4.2,"VC",0.5\n"2",11.5,"OJ",1\n"3",7.3,"VC",2\n',
        *(CUT, ("len", "supp=VC", "dose"), ("1", "3")),
    ),
    "sleep, a group and an ID": (
        '"","extra","group","ID"\n"1",0.7,"1","1"\n"2",-1.6,"1","2"\n"3",1.9,"2","3"\n',
        *({**CUT, "ignore": ["ID"]}, ("extra", "group"), ("1", "3")),
    ),
    "women": (
        '"","height","weight"\n"1",58,115\n"2",59,117\n"3",60,120\n"4",61,123\n',
        *(CUT, ("height", "weight"), ("1", "4")),
    ),
    "swiss, names of places": (
        '"","Fertility","Catholic"\n"Courtelary",80.2,9.96\n"La Vallee",54.3,2.15\n'
        '"Val de Ruz",77.6,16.92\n',
        *(CUT, ("Fertility", "Catholic"), ("Courtelary", "Val de Ruz")),
    ),
    "state.x77, years and signs in names": (
        '"","Life Exp","HS Grad","1977"\n"Alabama",69.05,41.3,0\n"Alaska",69.31,66.7,1\n'
        '"New Mexico",70.32,55.2,1\n',
        *(CUT, ("Life Exp", "HS Grad", "1977"), ("Alabama", "New Mexico")),
    ),
    "longley, named by years": (
        '"","GNP","Employed"\n"1947",234.289,60.323\n"1948",259.426,61.122\n"1949",258.054,60.171\n',
        *(CUT, ("GNP", "Employed"), ("1947", "1949")),
    ),
    "a matrix of logical values": (
        '"","V1","V2"\n"1",TRUE,FALSE\n"2",FALSE,NA\n"3",TRUE,TRUE\n',
        *({}, ("V1", "V2"), ("1", "3")),
    ),
    "lsat, a matrix without names of rows": (
        '"Item 1","Item 2","Item 3"\n0,0,1\n1,0,1\n1,1,1\n0,1,0\n',
        *({}, ("Item 1", "Item 2", "Item 3"), None),
    ),
    "votes, gaps among y and n": (
        '"","Class","V1","V2"\n"1","republican","n","y"\n"2","democrat",NA,"y"\n"3","democrat","y",NA\n',
        *({"ignore": ["Class"]}, ("V1", "V2"), ("1", "3")),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_r_is_read(tmp_path, name):
    text, told, columns, ends = TABLES[name]
    path = tmp_path / "r.csv"
    path.write_text(text)
    table = read_table(path, **told)
    assert table.columns == columns
    assert len(table) == text.count("\n") - 1
    assert (None if table.ids is None else (table.ids[0], table.ids[-1])) == ends
    assert (unpack(table.held) == 0).sum() == len(re.findall(r"\bNA\b", text))
    if told == CUT:
        with pytest.raises(DataError, match="binarize="):
            read_table(path)
